// Included before all others where loops have to vectorise: floating-point exceptions and errno, which nobody here reads, would keep the
// compiler from computing both sides of a choice. Results are the same. What is declared before it, std::min for one, would not take part.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math", "no-math-errno")
#endif
