// SPDX-License-Identifier: BSD-3-Clause
// Tests the promises of the C++ standard ([new.delete]) for every replaceable form of operator new
// and delete, and for their tc_* names.
#include <errno.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <typeinfo>

#include "entry_points.h"

namespace {

using entry::DeleteForms;
using entry::Fill;
using entry::Form;
using entry::Holds;
using entry::IsAligned;
using entry::NewForms;

// An alignment that only the aligned forms promise.
constexpr size_t kAlignment = 64;
constexpr size_t kImpossible = SIZE_MAX / 2;

// Frees by the first form that fits.
void Delete(const Form& form, void* object, size_t size, size_t alignment) {
  for (const Form& release : DeleteForms()) {
    if (release.Fits(form)) return release.Release(object, size, alignment);
  }
}

// How a request fails: "null", or the exception's type.
std::string FailureOf(const Form& form, size_t size, size_t alignment = kAlignment) {
  try {
    return form.Allocate(size, alignment) == nullptr ? "null" : "an object";
  } catch (const std::exception& exception) {
    return typeid(exception).name();
  }
}
std::string Expected(const Form& form, const std::type_info& exception = typeid(std::bad_alloc)) {
  return form.nothrow ? "null" : exception.name();
}

TEST(New, GivesAlignedUniqueObjectsOfEverySize) {
  std::vector<size_t> sizes = {0, 262144, 262145, 1 << 20};
  const std::vector<size_t> sweep = entry::SweepSizes(128 * 1024);
  for (size_t i = 0; i < sweep.size(); i += 7) sizes.push_back(sweep[i]);
  std::set_new_handler([] { throw std::logic_error("called without need"); });
  for (const Form& form : NewForms()) {
    for (size_t size : sizes) {
      SCOPED_TRACE(testing::Message() << form.symbol << " of " << size);
      void* several[3];
      for (size_t i = 0; i < 3; ++i) {
        several[i] = form.Allocate(size, kAlignment);
        ASSERT_TRUE(form.aligned ? IsAligned(several[i], kAlignment)
                                 : entry::IsAlignedFor(several[i], size));
        ASSERT_GE(malloc_usable_size(several[i]), size);
        Fill(several[i], malloc_usable_size(several[i]), size + i);
      }
      ASSERT_NE(several[0], several[1]);
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(Holds(several[i], malloc_usable_size(several[i]), size + i));
        Delete(form, several[i], size, kAlignment);
      }
    }
  }
  std::set_new_handler(nullptr);
}

TEST(New, FailsAsItsFormSays) {
  for (const Form& form : NewForms()) {
    SCOPED_TRACE(form.symbol);
    for (size_t size :
         {SIZE_MAX, SIZE_MAX - 64, size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}, kImpossible}) {
      EXPECT_EQ(FailureOf(form, size), Expected(form)) << size;
    }
    for (size_t alignment = 16; form.aligned && alignment <= size_t{1} << 30; alignment *= 2) {
      for (size_t size : {SIZE_MAX - alignment, SIZE_MAX - alignment + 1, SIZE_MAX - 1,
                          PTRDIFF_MAX - alignment + 2}) {
        EXPECT_EQ(FailureOf(form, size, alignment), Expected(form)) << alignment << " " << size;
      }
    }
    void* object = form.Allocate(100, kAlignment);
    ASSERT_NE(object, nullptr) << "the form must go on working";
    Delete(form, object, 100, kAlignment);
  }
}

int handler_calls;

struct MoreThanBadAlloc : std::bad_alloc {};

// [new.delete.single]: executes a loop. It tries to allocate; if that fails and there is no
// handler, it throws bad_alloc (or returns null); otherwise it calls the handler and continues.
// The throwing forms pass on what a handler throws unchanged; the nothrow forms stop it.
TEST(New, CallsTheHandlerUntilItGivesUp) {
  struct {
    std::new_handler handler;
    int calls;
    const std::type_info& exception;
  } const rows[] = {{[] {
                       if (++handler_calls == 5) std::set_new_handler(nullptr);
                     },
                     5, typeid(std::bad_alloc)},
                    // The handler that is installed now.
                    {[] {
                       ++handler_calls;
                       std::set_new_handler([] {
                         ++handler_calls;
                         std::set_new_handler(nullptr);
                       });
                     },
                     2, typeid(std::bad_alloc)},
                    {[] {
                       if (++handler_calls == 3) throw std::bad_alloc();
                     },
                     3, typeid(std::bad_alloc)},
                    {[] {
                       ++handler_calls;
                       throw MoreThanBadAlloc();
                     },
                     1, typeid(MoreThanBadAlloc)},
                    // The handler may throw any type, although the standard does not require this.
                    {[] {
                       ++handler_calls;
                       throw std::runtime_error("a text that is allocated as well");
                     },
                     1, typeid(std::runtime_error)}};
  for (const Form& form : NewForms()) {
    for (const auto& row : rows) {
      handler_calls = 0;
      std::set_new_handler(row.handler);
      EXPECT_EQ(FailureOf(form, kImpossible), Expected(form, row.exception)) << form.symbol;
      EXPECT_EQ(handler_calls, row.calls) << form.symbol;
    }
  }
  std::set_new_handler(nullptr);
}

TEST(Delete, TakesTheObjectsOfEveryFormOfNewThatFits) {
  for (const Form& form : DeleteForms()) {
    int fitting = 0;
    for (const Form& allocate : NewForms()) {
      if (!allocate.Fits(form)) continue;
      ++fitting;
      for (size_t alignment : {1u, 16u, 64u, 4096u, 65536u, 2u << 20}) {
        // The first round warms up, the second must not change the bytes in use.
        for (int round = 0; round < 2; ++round) {
          const size_t before = mallinfo2().uordblks;
          size_t in_use = 0;
          for (size_t size :
               {0u, 1u, 8u, 9u, 50u, 1000u, 5000u, 100000u, 262144u, 262145u, 2000000u}) {
            void* object = allocate.Allocate(size, alignment);
            // Each mistake fails the comparison below.
            if (object == nullptr || (form.aligned && !IsAligned(object, alignment))) ++in_use;
            errno = EDOM;
            form.Release(object, size, alignment);
            if (errno != EDOM) ++in_use;
          }
          in_use += mallinfo2().uordblks;
          if (round == 1) {
            EXPECT_EQ(in_use, before) << allocate.symbol << " then " << form.symbol;
          }
        }
        if (!form.aligned) break;
      }
    }
    EXPECT_EQ(fitting, 4);
  }
}

TEST(Delete, NullDoesNothing) {
  errno = EDOM;
  for (const Form& form : DeleteForms()) {
    form.Release(nullptr, 0, 16);
    form.Release(nullptr, 100, 64);
  }
  EXPECT_EQ(errno, EDOM);
}

}  // namespace
