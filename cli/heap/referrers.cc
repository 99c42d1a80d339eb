// SPDX-License-Identifier: BSD-3-Clause
#include "heap/referrers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "heap/search_space.h"

namespace cli {
namespace {

using tcmalloc::AddressRange;
using tcmalloc::LiveObject;
using tcmalloc::RootRange;

// In longer memory, only the pages that were copied are searched.
constexpr uint64_t kLongBytes = uint64_t{64} << 10;
constexpr size_t kPieceBytes = 4096;

template <typename Word>
class ReferrerFinder {
 public:
  ReferrerFinder(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
                 const ReferrerOptions& options, std::vector<Guard>* guards)
      : mirror_(mirror),
        options_(options),
        space_(mirror, target, main_thread, stopped, guards),
        index_(space_.objects().index()),
        memory_(mirror, space_.in_flight(), &ignored_),
        roots_(ListRoots(space_.roots(), space_.told(), mirror.Threads())) {}

  ReferrerSearch Run(Address address);

 private:
  using Memory = MirrorMemory<Word>;
  // A node is anything that contains words to search: first the objects, by their numbers, then
  // conditional ranges, then roots.
  using Node = uint32_t;
  // The origin of a node: another node, or one of these.
  static constexpr Node kNotReached = 0;
  static constexpr Node kFromNothing = 1;  // leaked nodes have this origin
  static constexpr Node kFirstNode = 2;

  struct Found {
    Node source;
    Address at;
    Address value;
  };

  void FindObject(Address address);
  void Number();
  bool IsObject(Node node) const { return node < first_range_; }
  bool IsRoot(Node node) const { return node >= first_root_; }
  LiveObject ObjectOf(Node node) const;
  // The node, which is not a root, into which the word points; kNotReached if there is none.
  Node NodeAt(Address word);

  // Calls f(at, word) for the words of a node until it returns false; then returns false.
  template <typename F>
  bool ForEachWord(Node node, F f);
  template <typename F>
  bool ForEachWordIn(Address start, Address end, F f);
  template <typename F>
  bool ForEachCopiedWord(Address start, Address end, F f);
  template <typename F>
  bool ForEachRegister(const SearchRoot& root, F f);
  void NoteUnread(Address at, uint64_t bytes);

  bool PointsToObject(Address word) const { return word - start_ < bytes_; }
  void NoteReferrer(Node source, Address at, Address word, uint64_t* also);
  void Reach(Node node, Node from);
  // Follows a node's words, and those of all nodes reached from it, until none is left.
  void Follow(Node first, uint64_t* also);
  // Follows the words of all reached nodes, and calls seen(node) for each node.
  template <typename F>
  void FollowReached(uint64_t* also, F seen);
  void SearchUnreached();

  Chain ChainOf(const Found& found);
  Link LinkOf(Node source, Address at, Address value) const;

  Mirror& mirror_;
  const ReferrerOptions options_;
  SearchSpace<Word> space_;
  const TargetObjects::Index& index_;
  uint64_t ignored_ = 0;
  Memory memory_;
  const std::vector<SearchRoot> roots_;
  Node first_range_ = 0;
  Node first_root_ = 0;
  // The object, or only the address.
  Address start_ = 0;
  uint64_t bytes_ = 1;
  Node object_ = kNotReached;  // if it is in use
  // The origin of each node, without the roots.
  Node* from_ = nullptr;
  std::vector<Node> reached_;  // reached, and not yet followed
  bool counts_unread_ = true;
  std::vector<Found> found_;
  ReferrerSearch result_;
};

template <typename Word>
void ReferrerFinder<Word>::FindObject(Address address) {
  result_.place = space_.heap_objects().Find(address);
  start_ = address;
  if (result_.place.object.start == 0) return;
  start_ = result_.place.object.start;
  bytes_ = result_.place.object.bytes;
  LiveObject object;
  if (index_.Find(start_, &object)) object_ = kFirstNode + static_cast<Node>(object.number);
}

template <typename Word>
void ReferrerFinder<Word>::Number() {
  const uint64_t objects = index_.num_numbers();
  const uint64_t ranges = space_.roots().conditional.size();
  if (kFirstNode + objects + ranges + roots_.size() >= UINT32_MAX) {
    throw Failure("the heap has more than 4 billion objects, which referrers cannot number");
  }
  first_range_ = kFirstNode + static_cast<Node>(objects);
  first_root_ = first_range_ + static_cast<Node>(ranges);
  from_ = space_.scratch().template AllocateArray<Node>(first_root_);
  RequireMemory(from_ != nullptr);
}

template <typename Word>
LiveObject ReferrerFinder<Word>::ObjectOf(Node node) const {
  const size_t number = node - kFirstNode;
  const auto& record = index_.RecordWithNumber(number);
  return {record.start + (number - record.first_number) * record.object_bytes, record.object_bytes,
          number};
}

template <typename Word>
auto ReferrerFinder<Word>::NodeAt(Address word) -> Node {
  if (index_.bounds().Contain(word)) {
    LiveObject object;
    if (index_.Find(word, &object)) return kFirstNode + static_cast<Node>(object.number);
  }
  const auto& ranges = space_.roots().conditional;
  if (ranges.size() == 0 || word < ranges[0].start || word >= ranges[ranges.size() - 1].end) {
    return kNotReached;
  }
  const RootRange* const after =
      std::upper_bound(ranges.begin(), ranges.end(), word,
                       [](Address address, const RootRange& r) { return address < r.start; });
  if (after == ranges.begin() || word >= after[-1].end) return kNotReached;
  return first_range_ + static_cast<Node>(after - 1 - ranges.begin());
}

template <typename Word>
void ReferrerFinder<Word>::NoteUnread(Address at, uint64_t bytes) {
  if (!counts_unread_ || options_.is_unwritten(at)) return;
  if (result_.unread_bytes == 0) result_.first_unread = at;
  result_.unread_bytes += bytes;
}

template <typename Word>
template <typename F>
bool ReferrerFinder<Word>::ForEachCopiedWord(Address start, Address end, F f) {
  char piece[kPieceBytes];
  for (Address at = start; at < end;) {
    Address wanted = std::min<Address>(end - at, kPieceBytes - at % kPieceBytes);
    const size_t n = memory_.Copy(piece, at, wanted);
    for (size_t i = 0; i + sizeof(Word) <= n; i += sizeof(Word)) {
      Word word;
      memcpy(&word, piece + i, sizeof(word));
      if (!f(at + i, Address{word})) return false;
    }
    if (n < wanted) {
      const Mirror::Area* const area = mirror_.AreaAt(at + n);
      if (area != nullptr && area->missing) wanted = std::min(end, area->end) - at;
      NoteUnread(at + n, wanted - n);
    }
    at += wanted;
  }
  return true;
}

template <typename Word>
template <typename F>
bool ReferrerFinder<Word>::ForEachWordIn(Address start, Address end, F f) {
  start = (start + sizeof(Word) - 1) / sizeof(Word) * sizeof(Word);
  end = end / sizeof(Word) * sizeof(Word);
  if (start >= end) return true;
  const auto scan = [&](Address from, Address to) {
    uintptr_t by = 0;
    if (!memory_.FindDirect(from, to, &by)) return ForEachCopiedWord(from, to, f);
    for (Address at = from; at < to; at += sizeof(Word)) {
      Word word;
      memcpy(&word, reinterpret_cast<const char*>(at + by), sizeof(word));
      if (!f(at, Address{word})) return false;
    }
    return true;
  };
  uintptr_t by = 0;
  if (end - start < kLongBytes || !memory_.FindDirect(start, end, &by)) return scan(start, end);
  AddressRange rest = {start, end};
  for (AddressRange part; memory_.TakeFirst(&rest, tcmalloc::WantedPages::kAny, &part);) {
    if (!scan(part.start, part.end)) return false;
  }
  return true;
}

template <typename Word>
template <typename F>
bool ReferrerFinder<Word>::ForEachRegister(const SearchRoot& root, F f) {
  // The place of a word is its number among the general registers, or after them.
  const ThreadRegisters& thread = *root.thread;
  const size_t n = thread.machine->general.size();
  for (size_t i = 0; i < n; ++i) {
    if (!f(i, thread.At(thread.machine->general[i].place))) return false;
  }
  for (size_t at = 0; at + sizeof(Word) <= thread.vector_set.size(); at += sizeof(Word)) {
    Word word;
    memcpy(&word, &thread.vector_set[at], sizeof(word));
    if (!f(n, Address{word})) return false;
  }
  return true;
}

template <typename Word>
template <typename F>
bool ReferrerFinder<Word>::ForEachWord(Node node, F f) {
  if (IsObject(node)) {
    const LiveObject object = ObjectOf(node);
    return ForEachWordIn(object.start, object.start + object.bytes, f);
  }
  if (!IsRoot(node)) {
    const RootRange& range = space_.roots().conditional[node - first_range_];
    return ForEachWordIn(range.start, range.end, f);
  }
  const SearchRoot& root = roots_[node - first_root_];
  if (root.kind == Holder::Kind::kRegister) return ForEachRegister(root, f);
  if (root.start == root.end) return f(0, root.start);
  return ForEachWordIn(root.start, root.end, f);
}

template <typename Word>
void ReferrerFinder<Word>::NoteReferrer(Node source, Address at, Address word, uint64_t* also) {
  ++result_.words;
  if (also != nullptr) ++*also;
  if (found_.size() < options_.chains) found_.push_back({source, at, word});
}

template <typename Word>
void ReferrerFinder<Word>::Reach(Node node, Node from) {
  if (node == kNotReached || node == object_ || from_[node] != kNotReached) return;
  from_[node] = from;
  reached_.push_back(node);
}

template <typename Word>
void ReferrerFinder<Word>::Follow(Node first, uint64_t* also) {
  ForEachWord(first, [&](Address at, Address word) {
    if (PointsToObject(word)) NoteReferrer(first, at, word, also);
    Reach(NodeAt(word), first);
    return true;
  });
}

template <typename Word>
template <typename F>
void ReferrerFinder<Word>::FollowReached(uint64_t* also, F seen) {
  while (!reached_.empty()) {
    std::vector<Node> level;
    level.swap(reached_);
    for (const Node node : level) {
      seen(node);
      Follow(node, also);
    }
  }
}

// Searches the leaked nodes: first those to which no leaked node points, then those in cycles.
template <typename Word>
void ReferrerFinder<Word>::SearchUnreached() {
  std::vector<bool> pointed_to(first_root_);
  std::vector<Node> unreached;
  const auto add = [&](Node node) {
    if (from_[node] == kNotReached && node != object_) unreached.push_back(node);
  };
  index_.ForEach(
      [&](const LiveObject& object) { add(kFirstNode + static_cast<Node>(object.number)); });
  for (Node node = first_range_; node < first_root_; ++node) add(node);
  counts_unread_ = false;
  bool any = false;
  for (const Node node : unreached) {
    ForEachWord(node, [&](Address, Address word) {
      any |= PointsToObject(word);
      const Node to = NodeAt(word);
      if (to != node) pointed_to[to] = true;
      return true;
    });
  }
  counts_unread_ = true;
  if (!any) return;
  for (const bool in_cycles : {false, true}) {
    for (const Node node : unreached) {
      if (from_[node] != kNotReached || (pointed_to[node] && !in_cycles)) continue;
      Reach(node, kFromNothing);
      FollowReached(&result_.words_leaked, [](Node) {});
    }
  }
}

template <typename Word>
Link ReferrerFinder<Word>::LinkOf(Node source, Address at, Address value) const {
  Link link{.at = at, .value = value};
  Holder& holder = link.holder;
  if (IsObject(source)) {
    const LiveObject object = ObjectOf(source);
    const SpanInfo& span = space_.objects().SpanOf(object);
    holder = {.kind = Holder::Kind::kObject,
              .start = object.start,
              .bytes = object.bytes,
              .sample = span.large ? span.sample : 0};
  } else if (!IsRoot(source)) {
    const RootRange& range = space_.roots().conditional[source - first_range_];
    holder = {
        .kind = Holder::Kind::kMemory, .start = range.start, .bytes = range.end - range.start};
  } else {
    const SearchRoot& root = roots_[source - first_root_];
    holder = {.kind = root.kind, .start = root.start, .bytes = root.end - root.start};
    if (root.kind != Holder::Kind::kRegister) return link;
    holder.thread = root.thread->thread;
    const auto& general = root.thread->machine->general;
    if (at < general.size()) holder.register_name = general[at].name;
    link.at = 0;
  }
  return link;
}

template <typename Word>
Chain ReferrerFinder<Word>::ChainOf(const Found& found) {
  // The nodes up to the root. Each was reached once, from a node that was reached earlier.
  std::vector<Node> nodes = {found.source};
  Chain chain;
  for (Node node = found.source; !IsRoot(node);) {
    if (node == object_) {
      chain.end = Chain::End::kItself;
      break;
    }
    node = from_[node];
    if (node == kFromNothing) {
      chain.end = Chain::End::kLeaked;
      break;
    }
    nodes.push_back(node);
  }
  const size_t most = std::max<size_t>(options_.links, 2);
  if (nodes.size() > most) {
    chain.links_before_gap = most / 2;
    chain.gap = nodes.size() - most;
  }
  chain.links.push_back(LinkOf(found.source, found.at, found.value));
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (i == chain.links_before_gap) i += chain.gap;
    Link link;
    ForEachWord(nodes[i], [&](Address at, Address word) {
      const bool is_it =
          nodes[i - 1] == object_ ? PointsToObject(word) : NodeAt(word) == nodes[i - 1];
      if (is_it) link = LinkOf(nodes[i], at, word);
      return !is_it;
    });
    chain.links.push_back(link);
  }
  return chain;
}

template <typename Word>
ReferrerSearch ReferrerFinder<Word>::Run(Address address) {
  result_.incomplete = space_.incomplete();
  for (const AddressRange& range : space_.told().roots) {
    result_.registered_roots.emplace_back(range.start, range.end);
  }
  FindObject(address);
  Number();
  for (size_t i = 0; i < roots_.size(); ++i) {
    Follow(first_root_ + static_cast<Node>(i), nullptr);
  }
  FollowReached(nullptr, [](Node) {});
  if (object_ != kNotReached) {
    Follow(object_, &result_.words_itself);
    FollowReached(&result_.words_itself, [this](Node node) {
      if (!IsObject(node)) return;
      ++result_.only_objects;
      result_.only_bytes += ObjectOf(node).bytes;
    });
  }
  SearchUnreached();
  counts_unread_ = false;
  for (const Found& found : found_) result_.chains.push_back(ChainOf(found));
  return std::move(result_);
}

}  // namespace

ReferrerSearch FindReferrers(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
                             Address address, const ReferrerOptions& options,
                             std::vector<Guard>* guards) {
  if (target.pointer_bytes() == sizeof(uint32_t)) {
    return ReferrerFinder<uint32_t>(mirror, target, main_thread, stopped, options, guards)
        .Run(address);
  }
  if (sizeof(uintptr_t) < target.pointer_bytes()) {
    throw Failure("this command is a 32-bit program: it cannot search a 64-bit process");
  }
  return ReferrerFinder<uint64_t>(mirror, target, main_thread, stopped, options, guards)
      .Run(address);
}

}  // namespace cli
