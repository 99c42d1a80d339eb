// SPDX-License-Identifier: BSD-3-Clause
#include <tcmalloc/tcmalloc.h>

#include <iostream>
#include <map>
#include <string>

int main() {
  std::map<std::string, int> counts;
  for (std::string word; std::cin >> word;) ++counts[word];
  std::cout << counts.size() << " different words, on TCMalloc " << tcmalloc_version() << "\n";
}
