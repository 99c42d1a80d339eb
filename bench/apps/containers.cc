// SPDX-License-Identifier: BSD-3-Clause

// This file is input for a compiler: many instantiations of the standard library's templates.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

template <int N>
struct Record {
  std::map<std::string, std::vector<std::pair<int, std::string>>> lists;
  std::unordered_map<std::string, std::unique_ptr<Record<N - 1>>> children;
  std::variant<int, double, std::string, std::tuple<int, char, std::string>> value;
  std::optional<std::set<std::string>> names;

  std::string Text() const {
    std::ostringstream text;
    for (const auto& [key, list] : lists) {
      text << key << N;
      for (const auto& [number, word] : list) text << number << word;
    }
    for (const auto& [key, child] : children) {
      if (child) text << key << child->Text();
    }
    std::visit(
        [&text](const auto& held) {
          if constexpr (requires { text << held; }) text << held;
        },
        value);
    return text.str();
  }

  void Sort() {
    for (auto& [key, list] : lists) {
      std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
        return std::tie(a.second, a.first) < std::tie(b.second, b.first);
      });
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    const std::function<bool(const std::string&)> empty = [](const std::string& word) {
      return word.size() == N;
    };
    if (names) std::erase_if(*names, empty);
    for (auto& [key, child] : children) {
      if (child) child->Sort();
    }
  }
};

template <>
struct Record<0> {
  std::string Text() const { return "leaf"; }
  void Sort() {}
};

std::string Use(Record<6>& record) {
  record.Sort();
  return record.Text();
}
