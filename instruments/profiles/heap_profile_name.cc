// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/heap_profile_name.h"

namespace tcmalloc {

void WriteFileNumber(uint64_t number, TextWriter* out) {
  for (uint64_t unit = 1000; unit > number && unit > 1; unit /= 10) out->Text("0");
  out->Number(number);
}

void WriteHeapProfileName(std::string_view prefix, uint64_t pid, uint64_t number, TextWriter* out) {
  out->Text(prefix);
  if (pid != 0) out->Text("_").Number(pid);
  out->Text(".");
  WriteFileNumber(number, out);
  out->Text(".heap");
}

void WriteHeapProfilePrefix(const Settings& settings, TextWriter* out) {
  out->Text(settings.heap_profile);
  if (*settings.pmix_rank != '\0') {
    out->Text(".rank-").Text(settings.pmix_rank);
  } else if (settings.in_slurm_job) {
    if (*settings.slurm_process != '\0') out->Text(".slurmid-").Text(settings.slurm_process);
  } else if (!settings.has_open_mpi && *settings.pmi_rank != '\0') {
    out->Text(".rank-").Text(settings.pmi_rank);
  }
}

bool HeapProfileNamesHavePid(const Settings& settings) {
  if (settings.heap_profile_use_pid) return true;
  if (*settings.pmix_rank != '\0') return false;
  return settings.in_slurm_job ? *settings.slurm_process == '\0' : settings.has_open_mpi;
}

}  // namespace tcmalloc
