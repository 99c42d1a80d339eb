// SPDX-License-Identifier: BSD-3-Clause
// A library that is loaded late, with data, and with thread-local storage that each thread gets at
// its first use.
namespace {

int something;
void* volatile data = &something;  // not null, so it is not in .bss
void* volatile zero_data;
// No code writes to these pages of the file.
void* volatile table[100'000] = {nullptr, &something};
thread_local void* volatile own_data;

}  // namespace

extern "C" {
void* volatile* PluginData() { return &data; }
void* volatile* PluginZeroData() { return &zero_data; }
void* volatile* PluginTable() { return &table[50'000]; }
void* volatile* PluginThreadData() { return &own_data; }
}
