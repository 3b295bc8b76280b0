"""What a capture demands of sizes: one engine for all questions about conditions on them.

1. `expressions`: what a condition says, as a tree that is parsed once, and its value for sizes.
2. `solutions`: for which values of one size a condition holds; exact for what is linear up to floor division and
   remainders.
3. `refutation`: a proof that conditions on several sizes hold together for none; `linear`: the sums that it works on.
4. `samples`: the sizes that are tried where neither decides. `decisions` uses all three: whether a condition holds for
   all sizes, or wherever others do, whether that is proven, and sizes for which it does not hold.
   `equal_numbers`: which numbers are equal wherever conditions hold.
5. `conditions`: conditions made of others. `witnesses`: the nearest sizes for which one does not hold. `trial_sizes`:
   sizes on all sides of several ones.
6. `wording`: conditions as a person writes them.

A condition is a Python expression over symbols ("(s0 % 4) == 0"), as torch prints it. Its text is read here only.
"""
