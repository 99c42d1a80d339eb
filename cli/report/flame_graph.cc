// SPDX-License-Identifier: BSD-3-Clause
#include "report/flame_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "report/table.h"

namespace cli {
namespace {

constexpr double kGraphWidth = 1200;
constexpr double kRow = 18;
constexpr double kGraphTop = 34;
constexpr double kMargin = 10;
constexpr double kCharacter = 6.6;  // the approximate width
constexpr double kLeastWidth = 0.4;

struct Node {
  std::string_view name;
  double bytes = 0;
  double objects = 0;
  size_t depth = 0;
  double left = 0;
  // The children are in the order in which they were first seen, so those of the largest site come
  // first.
  std::vector<std::unique_ptr<Node>> children;
  std::unordered_map<std::string_view, Node*> by_name;

  Node* Child(std::string_view child_name) {
    Node*& child = by_name[child_name];
    if (child == nullptr) {
      children.push_back(std::make_unique<Node>());
      child = children.back().get();
      child->name = child_name;
      child->depth = depth + 1;
    }
    return child;
  }
};

void Add(const CallSite& site, Node* root) {
  Node* node = root;
  const auto count = [&site](Node* at) {
    at->bytes += site.bytes;
    at->objects += site.objects;
  };
  count(node);
  for (auto at = site.frames.rbegin(); at != site.frames.rend(); ++at) {
    node = node->Child((*at)->function);
    count(node);
  }
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Other control characters, and bytes that are not UTF-8, are not allowed in XML.
        out +=
            static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
    }
  }
  return out;
}

// Returns a warm colour, always the same one for a name.
std::string ColourOf(std::string_view name) {
  uint32_t hash = 2166136261;
  for (const char c : name.substr(0, name.find('<', 1))) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  }
  return fmt::format("hsl({},{}%,{}%)", 12 + hash % 44, 70 + hash / 64 % 20, 62 + hash / 4096 % 10);
}

void WriteBox(const Node& node, const Node& root, double scale, std::string* out) {
  const double width = node.bytes * scale;
  const double x = kMargin + node.left * scale;
  const double y = kGraphTop + static_cast<double>(node.depth) * kRow;
  const auto to = std::back_inserter(*out);
  fmt::format_to(to,
                 "<g><title>{} ({}, {}, {:.0f} objects)</title>"
                 "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>",
                 Escaped(node.name), Size(static_cast<uint64_t>(node.bytes)),
                 Share(static_cast<uint64_t>(node.bytes), static_cast<uint64_t>(root.bytes)),
                 node.objects, x, y, std::max(width - 0.5, kLeastWidth), kRow - 1,
                 ColourOf(node.name));
  const auto fit = static_cast<size_t>(std::max(0.0, (width - 6) / kCharacter));
  if (fit >= 3) {
    std::string text(node.name.substr(0, fit));
    if (text.size() < node.name.size()) text.replace(text.size() - 2, 2, "..");
    fmt::format_to(to, "<text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x + 3, y + kRow - 5.5,
                   Escaped(text));
  }
  *out += "</g>\n";
}

}  // namespace

std::string FlameGraphOf(const std::vector<CallSite>& sites, const std::string& title) {
  Node root{.name = "all"};
  for (const CallSite& site : sites) Add(site, &root);
  const double scale = root.bytes > 0 ? (kGraphWidth - 2 * kMargin) / root.bytes : 0;
  std::string boxes;
  size_t deepest = 0;
  std::vector<Node*> rest = {&root};
  while (!rest.empty()) {
    Node* const node = rest.back();
    rest.pop_back();
    if (node->bytes * scale < kLeastWidth && node != &root) continue;
    deepest = std::max(deepest, node->depth);
    WriteBox(*node, root, scale, &boxes);
    double left = node->left;
    for (const auto& child : node->children) {
      child->left = left;
      left += child->bytes;
      rest.push_back(child.get());
    }
  }
  const double height = kGraphTop + static_cast<double>(deepest + 1) * kRow + kMargin;
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"monospace\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fffdf8\"/>\n"
      "<text x=\"{2:.0f}\" y=\"22\" font-size=\"14\">{3}</text>\n{4}</svg>\n",
      kGraphWidth, height, kMargin, Escaped(title), boxes);
}

}  // namespace cli
