"""Branches that depend on data: `if x.sum() > 0`. All execution paths of a model become one graph.

1. `branch_oracle`: one execution of the model, in which each condition that only data decides is answered as
   prescribed. The graph of that `execution_path` has an event where Python asked, with what Python's variables hold
   there: `program_points` says where, `python_state`, `state`, `heap_snapshot` and `operand_stack` say what, and
   `state_fingerprint` compares it.
2. `path_tree`: which answers have been captured, each together with every answer that may come before it. Where Python
   is at the same point again, and its variables hold the same but for values of the graph, paths merge: what follows is
   the same for both (`merge_points`). `untaken_answers` says which answers to give next, and `path_explorer` executes
   the model until nothing is left to try; `capture.all_paths` calls it.
3. `cfg`: the control-flow graph in SSA form. The operators between two branches are a block; a value that is another
   node in each of its predecessors is a phi (`blocks`). `unify_arguments` says where the paths of a block differ, and
   `sizes_of_variables` which tensors have the sizes that each path computes in its own way.
4. `lowering`: the blocks run as one model, whose branches are operators `cond`, and are captured as any model is. Loops
   with several exits are those of `multi_exit_loops`.

Where two paths that seemed to merge do not do the same, the model is captured again: with paths that merge only where
tensors share values alike; with sizes that are constants in one path and depend on data in another (`varying_sizes`)
read from data; and, if no loop decides, without merging any.
"""

from __future__ import annotations

from opbridge.capture.control_flow.branch_oracle import PathsRefused

__all__ = ["PathsRefused"]
