"""The parameters that a kernel writes to, of its form in TTIR."""

from __future__ import annotations

from opbridge.kernels.triton.written import written_parameters

PLAIN = """
module {
  tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#l)), %out: !tt.ptr<f32> loc(#l)) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32> loc(#loc2)
    %a = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc3)
    %a_0 = tt.addptr %a, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc3)
    %v = tt.load %a_0 : tensor<64x!tt.ptr<f32>> loc(#loc4)
    %b = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc5)
    %b_1 = tt.addptr %b, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc5)
    tt.store %b_1, %v : tensor<64x!tt.ptr<f32>> loc(#loc6)
    tt.return loc(#loc7)
  } loc(#loc)
} loc(#loc)
"""

LOOP = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %index: !tt.ptr<i32>, %out: !tt.ptr<f32>, %n: i32) {
    %r:3 = scf.for %i = %z to %n step %c iter_args(%acc = %z, %p = %x, %q = %out) -> (f32, !tt.ptr<f32>, !tt.ptr<f32>) {
      %v = tt.load %p : !tt.ptr<f32>
      tt.store %q, %v : !tt.ptr<f32>
      %p_1 = tt.addptr %p, %c64 : !tt.ptr<f32>, i32
      %q_1 = tt.addptr %q, %c64 : !tt.ptr<f32>, i32
      scf.yield %v, %p_1, %q_1 : f32, !tt.ptr<f32>, !tt.ptr<f32>
    }
    tt.return
  }
}
"""

INDEXED = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %index: !tt.ptr<i32>, %out: !tt.ptr<f32>) {
    %j = tt.load %index : !tt.ptr<i32>
    %a = tt.addptr %out, %j : !tt.ptr<f32>, i32
    %old = tt.atomic_rmw fadd, acq_rel, gpu, %a, %one, %true : (!tt.ptr<f32>, f32, i1) -> f32
    tt.return
  }
}
"""

BRANCHES = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %z: !tt.ptr<f32>, %c: i1) {
    %p = scf.if %c -> (!tt.ptr<f32>) {
      scf.yield %x : !tt.ptr<f32>
    } else {
      %q = tt.addptr %y, %c1 : !tt.ptr<f32>, i32
      scf.yield %q : !tt.ptr<f32>
    }
    %v = tt.load %z : !tt.ptr<f32>
    tt.store %p, %v : !tt.ptr<f32>
    tt.return
  }
}
"""

CALLED = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
    tt.call @helper__Pfp32(%y, %x) : (!tt.ptr<f32>, !tt.ptr<f32>) -> ()
    tt.return
  }
  tt.func private @helper__Pfp32(%to: !tt.ptr<f32>, %from: !tt.ptr<f32>) attributes {noinline = true} {
    %v = tt.load %from : !tt.ptr<f32>
    tt.store %to, %v : !tt.ptr<f32>
    tt.return
  }
}
"""

WHILE = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
    %r:2 = scf.while (%i = %c0, %p = %y) : (i32, !tt.ptr<f32>) -> (i32, !tt.ptr<f32>) {
      %c = arith.cmpi slt, %i, %n : i32
      scf.condition(%c) %i, %p : i32, !tt.ptr<f32>
    } do {
    ^bb0(%j: i32, %q: !tt.ptr<f32>):
      %v = tt.load %x : !tt.ptr<f32>
      tt.store %q, %v : !tt.ptr<f32>
      %q_1 = tt.addptr %q, %c1 : !tt.ptr<f32>, i32
      scf.yield %j, %q_1 : i32, !tt.ptr<f32>
    }
    tt.return
  }
}
"""

JUMPS = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %c: i1) {
    cf.cond_br %c, ^bb1(%x : !tt.ptr<f32>), ^bb2
  ^bb1(%p: !tt.ptr<f32>):
    tt.store %p, %v : !tt.ptr<f32>
    cf.br ^bb2
  ^bb2:
    tt.return
  }
}
"""


def test_a_store_is_followed_back_to_its_parameter():
    assert written_parameters(PLAIN, "add") == (1,)


def test_a_loop_carries_addresses():
    assert written_parameters(LOOP, "k") == (2,)


def test_a_loaded_index_is_no_address():
    assert written_parameters(INDEXED, "k") == (2,)


def test_an_address_that_may_be_one_of_two_counts_as_both():
    assert written_parameters(BRANCHES, "k") == (0, 1)


def test_calls_are_followed():
    assert written_parameters(CALLED, "k") == (1,)


def test_while_loops_are_followed():
    assert written_parameters(WHILE, "k") == (1,)


def test_jumps_are_followed():
    assert 0 in written_parameters(JUMPS, "k")
    assert 1 not in written_parameters(JUMPS, "k")
