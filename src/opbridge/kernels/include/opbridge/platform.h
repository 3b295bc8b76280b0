// What differs between compilers and between ways to build a library: which functions it shows, and which it contains.
#pragma once

// Everything but the entry points stays inside the library, so that two libraries in one process share nothing.
#if defined(__GNUC__)
#define OPBRIDGE_HIDDEN __attribute__((visibility("hidden")))
#define OPBRIDGE_ENTRY __attribute__((visibility("default"), weak, used))
#else
#define OPBRIDGE_HIDDEN
#define OPBRIDGE_ENTRY __declspec(dllexport) inline
#endif

// Marks the functions of the adapters, which stand between kernels and runtimes and depend on no kernel: `opbridge build` compiles them
// once, as adapter.cpp, and defines OPBRIDGE_SEPARATE_ADAPTER; a file that is compiled by itself contains them.
#ifdef OPBRIDGE_SEPARATE_ADAPTER
#define OPBRIDGE_ADAPTER
#else
#define OPBRIDGE_ADAPTER inline
#endif
