// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/probes.h"

// The notes are written here, because <sys/sdt.h>, which makes them, is not installed everywhere;
// so every build has its probes. A note "stapsdt" of type 3 holds three addresses (the instruction;
// one byte that shows how far a prelinker has moved the file; the counter), then three strings:
// provider, name, and the arguments, each as BYTES@OPERAND in the assembler's notation.
#if defined(__LP64__)
#define TC_PROBE_ADDRESS ".8byte "
#define TC_PROBE_BYTES "8"
#else
#define TC_PROBE_ADDRESS ".4byte "
#define TC_PROBE_BYTES "4"
#endif

// The note belongs to the function's section ("?"), so a linker that drops one drops both. Its
// address needs no run-time relocation, since notes of this kind are not loaded.
#define TC_PROBE(name, arguments)                                                        \
  "990: nop\n"                                                                           \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                          \
  ".balign 4\n"                                                                          \
  ".4byte 992f-991f, 994f-993f, 3\n"                                                     \
  "991: .asciz \"stapsdt\"\n"                                                            \
  "992: .balign 4\n"                                                                     \
  "993: " TC_PROBE_ADDRESS "990b\n" TC_PROBE_ADDRESS "_.stapsdt.base\n" TC_PROBE_ADDRESS \
  "otel_memory_" name                                                                    \
  "_semaphore\n"                                                                         \
  ".asciz \"otel_memory\"\n"                                                             \
  ".asciz \"" name                                                                       \
  "\"\n"                                                                                 \
  ".asciz \"" arguments                                                                  \
  "\"\n"                                                                                 \
  "994: .balign 4\n"                                                                     \
  ".popsection\n"                                                                        \
  ".ifndef _.stapsdt.base\n"                                                             \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                \
  ".weak _.stapsdt.base\n"                                                               \
  ".hidden _.stapsdt.base\n"                                                             \
  "_.stapsdt.base: .space 1\n"                                                           \
  ".size _.stapsdt.base, 1\n"                                                            \
  ".popsection\n"                                                                        \
  ".endif\n"

// Attached tracers increment and decrement these.
extern "C" {
__attribute__((section(".probes"))) volatile unsigned short otel_memory_alloc_semaphore = 0;
__attribute__((section(".probes"))) volatile unsigned short otel_memory_free_semaphore = 0;
}

namespace tcmalloc {

void ProbeAllocation(const void* object, size_t bytes, size_t weight) {
  if (otel_memory_alloc_semaphore == 0) return;
  asm volatile(TC_PROBE("alloc", TC_PROBE_BYTES "@%0 " TC_PROBE_BYTES "@%1 " TC_PROBE_BYTES "@%2")
               :
               : "r"(object), "r"(bytes), "r"(weight));
}

void ProbeFree(const void* object) {
  if (otel_memory_free_semaphore == 0) return;
  asm volatile(TC_PROBE("free", TC_PROBE_BYTES "@%0") : : "r"(object));
}

}  // namespace tcmalloc
