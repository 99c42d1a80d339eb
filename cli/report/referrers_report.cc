// SPDX-License-Identifier: BSD-3-Clause
#include "report/referrers_report.h"

#include <fmt/format.h>

#include <iterator>

#include "report/sizes.h"

namespace cli {
namespace {

std::string Count(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

bool IsObject(const ReferrerSearch& search) { return search.place.object.start != 0; }

// Returns "the object"; "the address" for an address that is in no object.
const char* Subject(const ReferrerSearch& search) {
  return IsObject(search) ? "the object" : "the address";
}

const char* EndName(Chain::End end) {
  switch (end) {
    case Chain::End::kRoot:
      return "root";
    case Chain::End::kLeaked:
      return "leaked";
    case Chain::End::kItself:
      return "itself";
  }
  return "";
}

const char* EndText(const Chain& chain, bool complete) {
  switch (chain.end) {
    case Chain::End::kRoot:
      return "";
    case Chain::End::kLeaked:
      return complete ? ", which is leaked" : ", which is unreachable as far as is known";
    case Chain::End::kItself:
      return chain.links.size() == 1 ? ", which is the object itself"
                                     : ", which is the object itself: a cycle";
  }
  return "";
}

void AddChain(const ReferrerSearch& search, size_t number, HolderNames& names, std::string* out) {
  const Chain& chain = search.chains[number];
  for (size_t i = 0; i < chain.links.size(); ++i) {
    const Link& link = chain.links[i];
    if (chain.gap > 0 && i == chain.links_before_gap) {
      fmt::format_to(std::back_inserter(*out), "        ... {}\n", Count(chain.gap, "more object"));
    }
    const std::string start = i == 0 ? fmt::format("  {:>3}.", number + 1) : "       from";
    *out += start + " " + names.Text(link);
    const Address pointee = i == 0 ? search.place.object.start : chain.links[i - 1].holder.start;
    const bool in_object =
        i == 0 ? pointee != 0 : chain.links[i - 1].holder.kind == Holder::Kind::kObject;
    const bool is_after_gap = chain.gap > 0 && i == chain.links_before_gap;
    if (in_object && !is_after_gap && link.value != pointee) {
      fmt::format_to(std::back_inserter(*out), " (points {} into it)",
                     Count(link.value - pointee, "byte"));
    }
    if (i + 1 == chain.links.size()) *out += EndText(chain, search.incomplete.empty());
    *out += '\n';
  }
}

}  // namespace

std::string ReferrersText(const ReferrerSearch& search, HolderNames& names) {
  std::string out;
  const auto to = std::back_inserter(out);
  if (search.words == 0) {
    const char* const nothing =
        search.place.kind == Place::Kind::kInUse && search.incomplete.empty()
            ? ": it is leaked, or the pointer is hidden"
            : "";
    fmt::format_to(to, "No referrer found: nothing that was searched points to {}{}\n",
                   Subject(search), nothing);
  } else {
    fmt::format_to(
        to, "{} to {}, the shortest ways from roots first:\n",
        search.words == 1 ? "1 word points" : fmt::format("{} words point", search.words),
        Subject(search));
    for (size_t i = 0; i < search.chains.size(); ++i) {
      AddChain(search, i, names, &out);
    }
    if (search.words > search.chains.size()) {
      fmt::format_to(to, "  and {} more\n", search.words - search.chains.size());
    }
    if (search.words == search.words_leaked + search.words_itself) {
      const bool is_known = search.place.kind == Place::Kind::kInUse && search.incomplete.empty();
      fmt::format_to(to, "No root reaches {}{}\n", Subject(search),
                     is_known ? ": it is leaked" : "");
    }
  }
  if (search.only_objects > 0) {
    fmt::format_to(to, "{} of {} can be reached through this one alone.\n",
                   Count(search.only_objects, "more object"), Size(search.only_bytes));
  }
  for (const std::string& line : search.incomplete) fmt::format_to(to, "incomplete: {}\n", line);
  return out;
}

nlohmann::ordered_json ReferrersJson(const ReferrerSearch& search, HolderNames& names) {
  nlohmann::ordered_json json;
  json["words"] = search.words;
  json["words_in_leaked_objects"] = search.words_leaked;
  json["words_in_cycles"] = search.words_itself;
  json["reachable"] = search.words > search.words_leaked + search.words_itself;
  json["only_through_this"] = {{"objects", search.only_objects}, {"bytes", search.only_bytes}};
  json["registered_roots"] = nlohmann::ordered_json::array();
  for (const auto& [start, end] : search.registered_roots) {
    json["registered_roots"].push_back({{"start", start}, {"bytes", end - start}});
  }
  json["complete"] = search.incomplete.empty();
  json["incomplete"] = search.incomplete;
  json["chains"] = nlohmann::ordered_json::array();
  for (const Chain& chain : search.chains) {
    nlohmann::ordered_json& one = json["chains"].emplace_back();
    one["ends"] = EndName(chain.end);
    if (chain.gap > 0) {
      one["not_shown"] = {{"objects", chain.gap}, {"after", chain.links_before_gap}};
    }
    one["links"] = nlohmann::ordered_json::array();
    for (const Link& link : chain.links) one["links"].push_back(names.Json(link));
  }
  return json;
}

}  // namespace cli
