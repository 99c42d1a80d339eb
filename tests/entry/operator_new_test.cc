// SPDX-License-Identifier: BSD-3-Clause
// The promises of the C++ standard ([new.delete]) for every replaceable form of operator new and
// delete, and for their tc_* names.
#include <errno.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>

#include "entry_points.h"

namespace {

using entry::DeleteForm;
using entry::DeleteForms;
using entry::Fill;
using entry::Holds;
using entry::IsAligned;
using entry::NewForm;
using entry::NewForms;
using entry::UsableSize;

constexpr size_t kImpossible[] = {SIZE_MAX, SIZE_MAX - 64, size_t{PTRDIFF_MAX} + 1,
                                  size_t{PTRDIFF_MAX}};

// An alignment that only the aligned forms promise.
constexpr size_t kAlignment = 64;

class New : public testing::TestWithParam<NewForm> {
 protected:
  // Removes the handler that a test may have installed.
  void TearDown() override { std::set_new_handler(nullptr); }

  const NewForm& form() const { return GetParam(); }
  void* Allocate(size_t size) const { return form().allocate(size, kAlignment); }
  // The first matching form of delete.
  void Delete(void* object, size_t size, size_t alignment) const {
    for (const DeleteForm& release : DeleteForms()) {
      if (release.array == form().array && release.aligned == form().aligned) {
        return release.release(object, size, alignment);
      }
    }
    FAIL();
  }
};

std::string TestName(std::string form) {
  std::string name;
  for (char c : form) {
    if (isalnum(c)) name += c;
    if (c == '[') name += "Array";
    if (c == ',' || c == '_') name += '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Forms, New, testing::ValuesIn(NewForms()),
                         [](const auto& parameter) { return TestName(parameter.param.name); });

TEST_P(New, GivesAlignedUniqueObjectsOfEverySize) {
  for (size_t size : entry::SweepSizes(512 * 1024)) {
    void* object = Allocate(size);
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(IsAligned(object, form().aligned ? kAlignment : size >= 16 ? 16 : 8)) << size;
    ASSERT_GE(UsableSize(object), size);
    Fill(object, size, size);
    ASSERT_TRUE(Holds(object, size, size));
    Delete(object, size, kAlignment);
  }
}

TEST_P(New, SizeZeroIsUnique) {
  std::set<void*> objects;
  for (int i = 0; i < 100; ++i) {
    void* object = Allocate(0);
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(objects.insert(object).second);
  }
  for (void* object : objects) Delete(object, 0, kAlignment);
}

TEST_P(New, EveryAlignment) {
  if (!form().aligned) return;  // no alignment to request: the sweep above covers this
  for (size_t alignment = 1; alignment <= 1 << 21; alignment *= 2) {
    for (size_t size : {1u, 8u, 100u, 5000u, 300000u}) {
      void* several[3];
      for (void*& object : several) {
        object = form().allocate(size, alignment);
        ASSERT_NE(object, nullptr);
        ASSERT_TRUE(IsAligned(object, alignment)) << size << " " << alignment;
        memset(object, 1, size);
      }
      for (void* object : several) Delete(object, size, alignment);
    }
  }
}

TEST_P(New, FailsAsItsFormSays) {
  for (size_t size : kImpossible) {
    if (form().nothrow) {
      EXPECT_EQ(Allocate(size), nullptr);
    } else {
      EXPECT_THROW(Allocate(size), std::bad_alloc);
    }
    // The form still works afterwards.
    void* object = Allocate(100);
    ASSERT_NE(object, nullptr);
    Delete(object, 100, kAlignment);
  }
}

TEST_P(New, FailureCanBeCaughtAsAnyBaseOfBadAlloc) {
  if (form().nothrow) return;
  try {
    Allocate(SIZE_MAX);
    FAIL() << "no exception";
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), std::bad_alloc().what());
    EXPECT_EQ(typeid(e), typeid(std::bad_alloc));
  }
}

int handler_calls;

// [new.delete.single]: executes a loop. It tries to allocate; if that fails and there is no
// handler, it throws bad_alloc (or returns null); otherwise it calls the handler and continues.
TEST_P(New, CallsTheHandlerUntilItUninstallsItself) {
  handler_calls = 0;
  std::set_new_handler([] {
    if (++handler_calls == 5) std::set_new_handler(nullptr);
  });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    EXPECT_THROW(Allocate(SIZE_MAX / 2), std::bad_alloc);
  }
  EXPECT_EQ(handler_calls, 5);
}

TEST_P(New, CallsTheHandlerThatIsInstalledNow) {
  static int first;
  static int second;
  first = second = 0;
  std::set_new_handler([] {
    ++first;
    std::set_new_handler([] {
      ++second;
      std::set_new_handler(nullptr);
    });
  });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    EXPECT_THROW(Allocate(SIZE_MAX / 2), std::bad_alloc);
  }
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST_P(New, HandlerMayThrowBadAlloc) {
  handler_calls = 0;
  std::set_new_handler([] {
    if (++handler_calls == 3) throw std::bad_alloc();
  });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    EXPECT_THROW(Allocate(SIZE_MAX / 2), std::bad_alloc);
  }
  EXPECT_EQ(handler_calls, 3);
}

// A handler may throw a type derived from bad_alloc, or, beyond the letter of the standard, any
// type. It passes through the throwing forms unchanged and stops at the nothrow forms.
TEST_P(New, HandlerMayThrowSomethingElse) {
  struct MoreThanBadAlloc : std::bad_alloc {
    int value = 17;
  };
  std::set_new_handler([] { throw MoreThanBadAlloc(); });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    try {
      Allocate(SIZE_MAX / 2);
      FAIL() << "no exception";
    } catch (const MoreThanBadAlloc& e) {
      EXPECT_EQ(e.value, 17);
    }
  }
  std::set_new_handler([] { throw 42; });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    EXPECT_THROW(Allocate(SIZE_MAX / 2), int);
  }
  std::set_new_handler([] { throw std::runtime_error("a text that is allocated as well"); });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    EXPECT_THROW(Allocate(SIZE_MAX / 2), std::runtime_error);
  }
}

TEST_P(New, HandlerMayAllocate) {
  handler_calls = 0;
  std::set_new_handler([] {
    std::unique_ptr<int[]> scratch(new int[100000]);
    if (++handler_calls == 2) std::set_new_handler(nullptr);
  });
  if (form().nothrow) {
    EXPECT_EQ(Allocate(SIZE_MAX / 2), nullptr);
  } else {
    EXPECT_THROW(Allocate(SIZE_MAX / 2), std::bad_alloc);
  }
  EXPECT_EQ(handler_calls, 2);
}

TEST_P(New, HandlerIsNotCalledOnSuccess) {
  handler_calls = 0;
  std::set_new_handler([] { ++handler_calls; });
  void* object = Allocate(1 << 20);
  EXPECT_EQ(handler_calls, 0);
  Delete(object, 1 << 20, kAlignment);
}

TEST_P(New, AlignedFailuresDoNotWrapAround) {
  if (!form().aligned) return;
  for (size_t alignment = 16; alignment <= size_t{1} << 30; alignment *= 2) {
    for (size_t size : {SIZE_MAX - alignment, SIZE_MAX - alignment + 1, SIZE_MAX - 1,
                        PTRDIFF_MAX - alignment + 2}) {
      if (form().nothrow) {
        EXPECT_EQ(form().allocate(size, alignment), nullptr) << alignment << " " << size;
      } else {
        EXPECT_THROW(form().allocate(size, alignment), std::bad_alloc) << alignment << " " << size;
      }
    }
  }
}

class Delete : public testing::TestWithParam<DeleteForm> {};

INSTANTIATE_TEST_SUITE_P(Forms, Delete, testing::ValuesIn(DeleteForms()),
                         [](const auto& parameter) {
                           std::string name = TestName(parameter.param.name);
                           return name;
                         });

TEST_P(Delete, TakesTheObjectsOfEveryFormOfNewThatFits) {
  const DeleteForm& form = GetParam();
  int fitting = 0;
  for (const NewForm& allocate : NewForms()) {
    if (allocate.array != form.array || allocate.aligned != form.aligned) continue;
    ++fitting;
    for (size_t alignment : {16u, 64u, 4096u, 65536u}) {
      // Runs two rounds: the first one warms up, the second must not change the bytes in use.
      for (int round = 0; round < 2; ++round) {
        const size_t before = mallinfo2().uordblks;
        size_t in_use = 0;
        for (size_t size :
             {0u, 1u, 8u, 9u, 50u, 1000u, 5000u, 100000u, 262144u, 262145u, 2000000u}) {
          void* object = allocate.allocate(size, alignment);
          if (object == nullptr) ++in_use;  // Fails the comparison below.
          errno = EDOM;
          form.release(object, size, alignment);
          if (errno != EDOM) ++in_use;
        }
        in_use += mallinfo2().uordblks;
        if (round == 1) {
          EXPECT_EQ(in_use, before) << allocate.name << " then " << form.name;
        }
      }
      if (!form.aligned) break;
    }
  }
  EXPECT_EQ(fitting, 4);
}

TEST_P(Delete, NullDoesNothing) {
  errno = EDOM;
  GetParam().release(nullptr, 0, 16);
  GetParam().release(nullptr, 100, 64);
  EXPECT_EQ(errno, EDOM);
}

// Tests calls that compilers generate, as opposed to direct calls of the functions.
TEST(NewExpression, ThroughTheCompiler) {
  struct alignas(256) Aligned {
    char bytes[300];
  };
  struct WithDestructor {
    ~WithDestructor() { bytes[0] = 1; }
    char bytes[33];
  };
  for (size_t n : {1, 2, 3, 100, 5000}) {
    auto* a = new Aligned[n];
    ASSERT_TRUE(IsAligned(a, 256));
    Fill(a, sizeof(Aligned) * n, n);
    auto* d = new WithDestructor[n];
    Fill(d, sizeof(WithDestructor) * n, n);
    auto* one = new Aligned;
    ASSERT_TRUE(IsAligned(one, 256));
    Fill(one, sizeof(Aligned), n);
    EXPECT_TRUE(Holds(a, sizeof(Aligned) * n, n));
    EXPECT_TRUE(Holds(d, sizeof(WithDestructor) * n, n));
    delete one;
    delete[] d;
    delete[] a;
  }
  volatile size_t too_many = SIZE_MAX / 2;
  EXPECT_THROW(delete[] new int[too_many], std::bad_alloc);
  EXPECT_EQ(new (std::nothrow) char[too_many], nullptr);
}

// [new.delete.single]: storage that a constructor's exception abandons is freed.
TEST(NewExpression, ThrowingConstructorFrees) {
  struct Throws {
    Throws() { throw 1; }
    char bytes[100000];
  };
  for (int round = 0; round < 2; ++round) {
    const size_t before = mallinfo2().uordblks;
    int caught = 0;
    for (int i = 0; i < 10; ++i) {
      try {
        delete new Throws;
      } catch (int) {
        ++caught;
      }
    }
    const size_t after = mallinfo2().uordblks;
    EXPECT_EQ(caught, 10);
    if (round == 1) {
      EXPECT_EQ(after, before);
    }
  }
}

}  // namespace
