// SPDX-License-Identifier: BSD-3-Clause
#include "report/page.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "image/text.h"
#include "report/profile_report.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

// Replaces the mark, which occurs once.
void Put(std::string* html, std::string_view mark, const std::string& text) {
  html->replace(html->find(mark), mark.size(), text);
}

// Writes JSON for a script; no part of it may end the script.
std::string ScriptText(const Json& json) {
  std::string out;
  for (const char c : DumpJson(json)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

Json DataOf(const Page& page) {
  Json names = Json::array();
  std::unordered_map<std::string, size_t> ids;
  const auto id_of = [&](const std::string& name) {
    const auto [at, is_new] = ids.try_emplace(name, names.size());
    if (is_new) names.push_back(name);
    return at->second;
  };
  Json sites = Json::array();
  for (const CallSite& site : *page.sites) {
    Json functions = Json::array();
    Json sources = Json::array();
    for (const SourceFrame* const frame : site.frames) {
      functions.push_back(id_of(frame->function));
      sources.push_back(id_of(SourceOf(*frame)));
    }
    sites.push_back({{"functions", std::move(functions)},
                     {"sources", std::move(sources)},
                     {"own", OwnFrame(site)},
                     {"bytes", static_cast<uint64_t>(site.bytes + 0.5)},
                     {"objects", static_cast<uint64_t>(site.objects + 0.5)},
                     {"samples", site.samples}});
  }
  Json timeline = Json::array();
  for (const TimelinePoint& point : page.timeline) {
    timeline.push_back({point.time_ms, point.in_use_bytes, point.heap_bytes, point.resident_bytes});
  }
  return {{"title", page.title},       {"subtitle", page.subtitle},
          {"notes", page.notes},       {"names", std::move(names)},
          {"sites", std::move(sites)}, {"timeline", std::move(timeline)}};
}

}  // namespace

std::string HtmlOf(const Page& page) {
  std::string html(kPageHtml);
  Put(&html, "/*STYLE*/", std::string(kPageCss));
  Put(&html, "/*SCRIPT*/", std::string(kPageJs));
  Put(&html, "/*DATA*/", ScriptText(DataOf(page)));
  return html;
}

}  // namespace cli
