// SPDX-License-Identifier: BSD-3-Clause
// TESTED_WITH_ASAN, TESTED_WITH_TSAN: 1 in builds with AddressSanitizer or ThreadSanitizer, else 0.
#pragma once

#if defined(__has_feature)  // clang
#define TESTED_WITH_ASAN __has_feature(address_sanitizer)
#define TESTED_WITH_TSAN __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define TESTED_WITH_ASAN 1
#else
#define TESTED_WITH_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define TESTED_WITH_TSAN 1
#else
#define TESTED_WITH_TSAN 0
#endif
#endif
