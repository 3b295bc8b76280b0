"""Campaigns that attack opbridge as an enemy would, and what they are made of.

A campaign is a module of `attack.campaigns` with `run(seconds, seed)`, which returns counts, and under "findings" what
it found. `python -m attack` runs all of them.

guard           a replacement of malloc under which accesses out of bounds and unwritten memory show
overloads       the overloads of aten that a model file may name
drawing         arguments of every kind, drawn from an operator's schema
samples         calls from PyTorch's own test database, which are mutated
guarded_calls   one call, made twice in guarded memory, and compared
operator_server processes that make the calls of one operator, which may crash
journal         what has been found so far, to go on from
evidence        the list of operators that a file may run by default, made of a journal
op_db_list      which operators of PyTorch's own test database that need the route aten are on the list
"""
