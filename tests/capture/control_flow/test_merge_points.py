"""Shortest paths through the answers of a model, from points made by hand."""

from __future__ import annotations

from opbridge.capture.control_flow.merge_points import (
    END,
    Edge,
    MergePoint,
    described,
    later_answers,
    paths_around,
    shortest_path,
    steps_before,
    steps_to,
)

_A, _B, _C, _END = MergePoint("a"), MergePoint("b"), MergePoint("c"), MergePoint(END)
_BEGIN: Edge = (None, False)

# a loop `while a: if b: continue, else raise`, and an `if c` after it that joins again
_FOLLOWING = {
    _BEGIN: _A,
    (_A, True): _B,
    (_A, False): _C,
    (_B, True): _A,
    (_B, False): None,
    (_C, True): _END,
    (_C, False): _END,
}


def test_the_shortest_path_to_the_end_leaves_the_loop_at_once():
    assert shortest_path(_FOLLOWING, _END, _BEGIN, None) == [(_A, False), (_C, False)]


def test_the_shortest_path_to_an_answer_ends_with_it():
    assert shortest_path(_FOLLOWING, _END, _BEGIN, (_B, True)) == [(_A, True), (_B, True)]
    assert shortest_path(_FOLLOWING, _END, (_A, True), (_A, True)) == [(_B, True), (_A, True)]


def test_there_is_no_path_back_or_through_an_error():
    assert shortest_path(_FOLLOWING, _END, (_A, False), (_B, True)) is None
    assert shortest_path(_FOLLOWING, _END, (_B, False), (_C, True)) is None
    assert paths_around(_FOLLOWING, _END, (_C, True)) == ([(_A, False), (_C, True)], [])


def test_steps_count_the_answers_on_the_way():
    assert steps_to(_FOLLOWING, _END, None) == {
        (_C, True): 0,
        (_C, False): 0,
        (_A, False): 1,
        _BEGIN: 2,
        (_B, True): 2,
        (_A, True): 3,
    }
    near = steps_before(_FOLLOWING, [(_B, True), (_C, True)])
    assert near[(_A, True)] == near[(_A, False)] == 1 and (_B, False) not in near


def test_answers_of_a_loop_come_later_than_themselves():
    later = later_answers(_FOLLOWING, _END)
    assert set(later) == {(_A, True), (_A, False), (_B, True), (_C, True), (_C, False)}
    assert (_A, True) in later[(_A, True)] and (_B, True) in later[(_B, True)]
    assert set(later[(_A, False)]) == {(_C, True), (_C, False)} and not later[(_C, True)]


def test_what_an_answer_leads_to_is_said():
    assert [described(each) for each in (None, _END, _A)] == ["an error", "the end", "a decision"]
