#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that every number that could be tuned says so, and why it has its value.

  tuning.py ROOT

Fails when src/, instruments/ or formats/ have a numeric constant, in the scope of a namespace, a class or an enumeration,
that is not marked as a tuning constant (src/base/tuned.h), nor derived from other constants, nor listed below with a
reason; when an entry of the list names nothing; when the comment of a tuning constant has neither a measurement nor "Not
measured"; when nothing uses a tuning constant; and when there are more than MOST of them.

A constant is numeric if it has an arithmetic type, an alias of one, the type Length or PageId, or is an array of these.
It is derived if the initial value has the name of another constant, and no number except 0 and 1. An enumerator counts
when its value has any other number. Constants inside functions are not checked.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402
import tuning_constants  # noqa: E402

# Fewer are better: if no benchmark and no test can distinguish a number from another one, it should
# not be a tuning constant.
MOST = 110

REASONS = {
    "format": "a file format, a name or an interface that others read or wrote",
    "buffer": "the size of a buffer or table that makes nothing but room",
    "bits": "the width or place of a field, or a mark that no value reaches",
    "protocol": "states and marks that parts of the library agree on",
    "system": "a number of the kernel, the machine, the C library or the compiler",
    "test hook": "only tests set it",
    "bound": "how much is done, searched or held back at once; no benchmark sees it",
    "patience": "how long or how often to try before giving up, which matters only after something else went wrong",
    "plausible": "what data must satisfy to be believed",
    "setting": "a default, a bound or a meaning of a setting, which the documentation of the setting states",
    "message": "decides only what a message says",
    "derived": "follows from other numbers, which its comment names",
}

# file: names: reason
CONSTANTS = """
base/bitmap.h: kBitsPerWord: bits
base/config.h: kPageShift kMinAlignment kCacheLineSize kAddressBits: system
base/in_flight.h: kObjectWords kBinArrays: protocol
config/environment_hints.h: kMaxComparedName: buffer
base/sampling_gap.h: kMaxGap: bits
base/size_classes.h: kReciprocalShift kMaxSmallSpanBytes: bits
base/size_classes.h: kMaxFineIndex: buffer
base/size_classes.h: kMaxFineSize: buffer
thread_cache/bins.h: kFullMark: protocol
base/sampling_gap.h: kNever: bits
central/central_free_list.h: kMaxRuns kSpansAtOnce: buffer
central/hole_claims.h: kMaxHoles: buffer
central/hole_claims.h: kClaimedAtOnceBytes: bound
central/object_words.h: kMaxWords: buffer
central/shard.h: kNumRanks: bits
central/shard.h: kNowhere: protocol
central/shard.h: kMaxProcessors: buffer
central/shard.h: kShardBits kCounted: bits
instruments/gperftools/malloc_extension.cc: kSpansAtOnce: buffer
config/setting.h: kDebugLibrary: bits
instruments/debug/allocation.cc: kStaticSkip: protocol
instruments/red_zones/debug_object.h: kNewByte kFreedByte kRedZoneByte kLive kFreeing kFreed kRecycled kStateFactor kMark: protocol
instruments/debug/allocation.cc: kBuckets: buffer
instruments/debug/checks.cc: kSpansAtOnce: buffer
instruments/gperftools/malloc_extension.cc: kMaxLists: buffer
instruments/gperftools/malloc_extension.cc: kBufferForLevel2 kMaxPages: format
instruments/gperftools/malloc_hook.cc: kStaticSkip: protocol
malloc/entry_tcmalloc.cc: kMaxCacheBytes: bits
malloc/entry_tcmalloc.cc: kNothing: protocol
process/background_thread.cc: kForATime: protocol
process/control.h: kRelease kTrim kSet kStartProfile kStopProfile kTextWords kRefused kGarbled kPrivileged: format
instruments/introspection/root.h: kFormat: format
instruments/guard/guarded_objects.cc: kFreeStaticSkip: protocol
instruments/guard/fault_handler.cc: kStackBytes: buffer
instruments/guard/guard_pool.h: kSlackByte: protocol
formats/marker/sampled_sites.h: kNumAgeBuckets kAgeBucketStartsMs: format
instruments/annotations/program_annotations.h: kNumBuckets: buffer
instruments/annotations/program_annotations.h: kIgnoredMark: bits
instruments/leaks/heap_objects.h: kChunkBytes: buffer
formats/marker/control_blocks.h: kAlignment kSmallestPage kSelfAt kSecretsAt kFirstStackAt kMostBytes kListAlignment kMostListBytes kLeastLinkOffset kLengthAlignment: system
instruments/leaks/found_leaks.cc: kFirstSlots: buffer
instruments/leaks/found_leaks.h: kMaxWords: format
formats/marker/mark_work.h: kKindShift: bits
formats/marker/marker.h: kCopiedBytes: system
formats/marker/marker.h: kMaxRecordBytes: buffer
formats/marker/object_index.h: kNone kLarge kPageInSpanShift kPayloadShift: bits
formats/marker/object_index.h: kClasses: bits
instruments/leaks/heap_objects.h: kSpansAtOnce: buffer
instruments/leaks/check.h: kMaxNameBytes: buffer
instruments/annotations/program_annotations.h: kFirst: buffer
formats/marker/root_map.cc: kRedZoneBytes kKeptWords: system
instruments/leaks/process_search.cc: kFirstTextBytes: buffer
malloc/oom_policy.cc: kVtableHeaderWords: system
instruments/leaks/process_search.cc: kPagemapScan: system
formats/marker/pagemap.h: kPresent kSwapped kOfFileOrShared kGuard kExclusive kScanOfFile kScanPresent kScanSwapped kScanZeroes kScanHuge
    kScanGuard: system
instruments/leaks/process_search.h: kEntries: buffer
os/memory/file_memory.cc: kMaxOffset: bits
os/c_library.cc: kStackNeighbourhood: system
os/log.h: kAbortLineBytes: format
instruments/unwind/call_frame_cache.h: kPairsShift: buffer
instruments/unwind/call_frame_entries.h: kHeaderBytes: format
instruments/unwind/call_frame_info.h: kNumRegisters: format
instruments/unwind/call_frame_info.cc: kOpLoad kOpRegister kOpLiteral kOpAnd kOpNotLess kOpShift kOpAdd: format
instruments/unwind/call_frame_info.cc: kDeepest: buffer
instruments/unwind/call_frame_info.cc: kAdvance kOffset kRestore kShortForms kSetLocation kAdvance1 kAdvance2 kAdvance4: format
instruments/unwind/call_frame_info.cc: kDefineAddress kDefineAddressRegister kDefineAddressOffset: format
instruments/unwind/call_frame_info.cc: kDefineAddressExpression kDefineAddressSigned kDefineAddressOffsetSigned: format
instruments/unwind/call_frame_info.cc: kOffsetExtended kRestoreExtended kUndefined kSameValue kRegister kExpression: format
instruments/unwind/call_frame_info.cc: kOffsetExtendedSigned kValueOffset kValueOffsetSigned kValueExpression: format
instruments/unwind/call_frame_info.cc: kNegativeOffsetExtended kNop kRememberState kRestoreState: format
instruments/unwind/call_frame_info.cc: kNegateReturnStateWithPc kNegateReturnState kArgumentsSize: format
instruments/unwind/call_frame_info.h: kAbsolute kUnsigned2 kUnsigned4 kUnsigned8 kSigned2 kSigned4 kSigned8 kFormatMask
    kRelativeToField kRelativeToHeader: format
instruments/unwind/call_frame_info.h: kStackPointer kFramePointer kBase kReturn: format
os/cgroup.cc: kUnlimitedFrom: system
os/cgroup.h: kRoom: buffer
os/threads.cc: kStackBytes: buffer
instruments/unwind/elf_image.cc: kMaxSegments kMaxNotes: format
instruments/unwind/elf_image.h: kMaxBuildIdBytes: buffer
instruments/unwind/elf_image.cc: kMaxName: buffer
instruments/unwind/elf_image.cc: kMaxProgramHeaders kMaxDynamic kMaxSections kMaxSymbols: format
malloc/override_threads.cc: kMostStarts: buffer
page_heap/release_policy.h: kNever: protocol
os/process.cc: kMaxEnvironmentBytes: system
instruments/pressure/event_sources.h: kMaxLength: buffer
instruments/pressure/monitor.cc: kMaxEvents: buffer
instruments/pressure/monitor.cc: kMarkSeconds kMarkNanoseconds: protocol
os/memory/virtual_memory.h: kHugepageSize: system
os/files.h: kMaxPath: system
instruments/leaks/main_start.cc: kStackOfConstructors: system
os/memory/mapped_ranges.h: kFirst kSpare: buffer
os/memory/file_memory.cc: kRandomCharacters kMaxName: buffer
os/memory/heap_memory.h: kFirst kMoreBytes: buffer
instruments/world_stop/memory_reader.cc: kPageBytes: system
instruments/world_stop/memory_reader.h: kFaultStackBytes: buffer
instruments/pressure/event_sources.cc: kDiscardBytes: buffer
instruments/pressure/event_sources.h: kMaxPressureWrite: buffer
instruments/pressure/event_sources.h: kMaxPsiWindowUs kUnprivilegedPsiWindowUs: system
os/memory/anonymous_memory.cc: kMaxBytes: bits
os/signals.h: kTerminationSignal: system
os/spinlock.h: kLevelShift kMaxLevel kOwnerShift: bits
os/spinlock.h: kFree kLocked kWaiters kForkHeld: protocol
instruments/unwind/call_frame_entries.cc: kMinLength: format
instruments/unwind/frame_step.h: kPage: system
instruments/unwind/stack_trace.cc: kCallbackDepth: protocol
os/threads.cc: kFirstInternalSignal kWantedKey: system
os/threads.h: kThreadNumberBits: bits
instruments/world_stop/thread_state.cc: kGetRegisterSet kVectorSets: system
instruments/world_stop/thread_state.h: kMax kMaxRegisterBytes: buffer
instruments/world_stop/thread_tracer.cc: kDetach kSeize kInterrupt kEventStop: system
os/memory/virtual_memory.cc: kDontNeedLocked: system
os/memory/virtual_memory.h: kMaxAsked: buffer
instruments/world_stop/world_stop.cc: kSetPtracer: system
instruments/world_stop/world_stop.h: kWorldStopStackBytes: buffer
page_heap/address_space.h: kStoppedRemembered: buffer
page_heap/memory_limit.h: kNumLimitKinds: protocol
page_heap/metadata_arena.h: kMinBytes kMaxBytes kFineSizes kMiddleSizes kNumSizes: buffer
page_heap/page_map.h: kLeafBits kLeavesAtOnce: bits
page_heap/page_map.h: kMaxHardwarePage: system
page_heap/page_state.h: kRecordsPerMove: protocol
page_heap/hugepage_counts.h: kBits: buffer
page_heap/hugepage_counts.h: kSearchedAtOnce: bound
page_heap/span.h: kFirstPool: bits
page_heap/span_store.h: kRecordsPerOperation kSpareRecords: protocol
instruments/pressure/config.h: kPressureLevels: protocol
instruments/pressure/monitor.h: kMaxSources: buffer
instruments/profiles/profile.h: kFirstSlots: buffer
formats/profiles/profile_writers.h: kSampleType kSample kMapping kLocation kFunction kStringTable kTimeNanos kDurationNanos
    kPeriodType kPeriod kDefaultSampleType kType kUnit kLocationId kValue kLabel kKey kNum kNumUnit kId kMemoryStart kMemoryLimit
    kFileOffset kFilename kBuildId kHasFunctions kHasFilenames kHasLineNumbers kHasInlineFrames kMappingId kAddress kLine
    kFunctionId kName kSystemName: format
instruments/unwind/mapped_libraries.cc: kFirstTextBytes: buffer
instruments/profiles/object_table.cc: kFirstBytes: buffer
instruments/profiles/object_table.h: kMaxBytes kMaxMark: bits
instruments/profiles/object_table.h: kNumShards: buffer
formats/profiles/profile_writers.h: kDelimited: format
instruments/profiles/object_table.h: kNumBuckets: buffer
instruments/profiles/heap_dumps.h: kMaxPrefixBytes kHeapProfileNameBytes: buffer
instruments/unwind/mapped_libraries.cc: kBytesPerFrame: buffer
instruments/profiles/process_profiles.cc: kMaxName: buffer
instruments/profiles/heap_profiler.cc: kStaticSkip: protocol
instruments/profiles/sampler.cc: kSampleStaticSkip: protocol
process/fork.cc: kMaxHandlers: buffer
process/helper_thread.cc: kMaxTasks: buffer
process/hooks.h: kMaxHooks: format
process/large_reports.cc: kReportedFrames: buffer
process/large_reports.cc: kStaticSkip: protocol
process/instrument_records.h: kLevels: protocol
stats/stats.h: kMaxName: buffer
config/settings.cc: kFullLibraryNamesBytes: buffer
config/setting.h: kNoTraits kFullLibrary kZeroIsUnlimited kLinesWhereSet: protocol
config/settings.h: kSettingTextBytes: buffer
config/settings_table.h: kMaxBytes kMaxMebibytes kMaxGuardedSample kMaxSeconds: bits
stats/stats.cc: kChunk: buffer
stats/stats.h: kPages kHoles kClasses kCaches kCacheCount kSettings: protocol
thread_cache/bin_policy.h: kMaxBinObjects kMaxMoveObjects: buffer
thread_cache/bin_policy.h: kMaxUnusedFor: bits
thread_cache/registry.h: kDetachedAtOnce kLookedAtOnce: bound
thread_cache/registry_sharing.cc: kMaxCandidates: bound
config/settings.h: kMinPerCacheBytes: setting
config/settings.cc: kSmallRetentionBytes kSmallMinPerCacheBytes kSmallReleaseRate: setting
page_heap/free_spans.h: kMaxExactPages: buffer
page_heap/governor.h: kMaxRefusals: patience
page_heap/span_store_cold.cc: kSpansLookedAt: bound
page_heap/page_heap_kept.cc: kDrainedAtOnce: bound
page_heap/span_home.h: kPoolRecords: buffer
page_heap/address_space.h: kStoppedAtOnce kMaxMoves: bound
page_heap/address_space.h: kMaxMovesAtOnce: buffer
page_heap/address_space.cc: kSpanRecordsBytes: buffer
page_heap/address_space_cold.cc: kRestoredAtOnce: bound
page_heap/address_space_cold.cc: kMaxUnmapRefusals: patience
page_heap/release_policy.h: kDefaultReleaseRate: setting
page_heap/release_policy.h: kReleasePart kMaxReleasePart: bound
page_heap/page_heap.cc: kMaxSlicesForSoft: bound
page_heap/page_heap.cc: kMaxTimesTaken: patience
page_heap/metadata_arena.h: kArenaChunkBytes kFirstRegionBytes kMaxRegionBytes kMostFromChunk: buffer
config/settings.h: kMaxReleaseRate: setting
process/release.h: kSleepAfterPasses: derived
process/large_reports.cc: kRisePart: setting
config/settings.h: kLargeReportBytes: setting
process/fork.cc: kForkTries: patience
os/spinlock.h: kForkTimeoutMs: patience
os/memory/file_memory.cc: kMaxReservedBytes kReservedAtOnceBytes: bound
os/memory/file_memory.cc: kNameTries: patience
os/files.h: kFirstDescriptor: system
process/helper_thread.h: kMaxWriteWaitMs: patience
process/helper_thread.cc: kMaxSignalWaitMs: patience
base/text.h: kMinIntervalMs kMaxIntervalMs: setting
config/environment_hints.h: kNearDistance: message
os/stack_trace.h: kMaxStackDepth: buffer
instruments/profiles/sampler.h: kDefaultSamplePeriod: setting
instruments/profiles/sample_table.h: kMaxGrowthStacks: buffer
instruments/profiles/sample_table.cc: kRecordBlockBytes: buffer
instruments/profiles/object_table.h: kMaxSiteDepth: buffer
instruments/profiles/object_table.cc: kMaxSites: bound
instruments/guard/guard_pool.h: kGuardFrames: buffer
instruments/guard/fault_handler.cc: kReportPatienceMs: patience
instruments/unwind/frame_step.h: kMaxFrameBytes: plausible
instruments/unwind/stack_trace.cc: kMaxSimpleFrameBytes: plausible
instruments/debug/allocation.cc: kDepth: buffer
instruments/debug/allocation.cc: kMaxFilledBytes: bound
instruments/leaks/check.cc: kMaxAttempts kLongestRetryMs: patience
instruments/leaks/examination.cc: kStopPatienceMs kFirstStopPauseMs kLongestStopPauseMs: patience
instruments/world_stop/world_stop.h: kRunnablePatienceMs: patience
instruments/world_stop/thread_tracer.cc: kStuckNs kYields kPauseNs: patience
instruments/world_stop/world_stop.cc: kLookAtTaskNs: patience
formats/marker/marker.h: kProbedRootBytes: bound
formats/marker/marker.h: kWaitingWords: buffer
formats/marker/marker.h: kMaxChain kAllocatorStackBytes: plausible
instruments/pressure/config.h: kAutoPercent kAutoStallUs kDefaultPressureIntervalMs kMaxPressureIntervalMs: setting
instruments/pressure/pressure.cc: kRetryMs kReviveAfterMs: patience
instruments/pressure/event_sources.cc: kReadsAtOnce: bound
stats/stats_series.cc: kLineBytes: buffer
"""

ARITHMETIC = (r"(?:std::)?(?:size_t|ptrdiff_t|u?int(?:_fast|_least)?(?:8|16|32|64)_t|u?intptr_t|"
              r"(?:(?:un)?signed\s+)?(?:long\s+long|long|int|short|char)|unsigned|float|double)|Length|PageId|auto")
DECLARATION = re.compile(r"(?P<specifiers>(?:(?:static|inline|constexpr|const|constinit|extern|\[\[[^\]]*\]\]|TC_\w+)\s+)*)"
                         r"(?P<type>[\w:]+(?:\s+(?:long|int|char|short))*(?:\s*<.*?>)?)(?P<pointer>[\s*&]+)"
                         r"(?P<name>\w+)\s*(?P<array>(?:\[[^\]]*\]\s*)*)(?P<value>[={].*)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])(?:0[xX][\da-fA-F']+|\.?\d[\d'.]*(?:[eE][-+]?\d+)?)\w*")
OTHER_CONSTANT = re.compile(r"\bk[A-Z]\w*|\b[A-Z][A-Z0-9_]{2,}\b|\bsizeof\b|\bnumeric_limits\b")
ACCESS = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")


def plain(path_text):
    """Code without comments, strings and the preprocessor's lines."""
    text = source.without_comments_and_strings(path_text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: source.blank(m[0]), text, flags=re.MULTILINE | re.DOTALL)


def scope_of(head):
    """Returns what a brace opens after `head`, the statement so far: a namespace, a class, an enumeration, or something
    else."""
    head = re.sub(r"^\s*template\s*<[^{}]*>\s*(?=class|struct|union)", "", head).strip()
    if re.match(r"(inline\s+)?namespace\b|extern\s*$", head):
        return "namespace"
    if re.match(r"(typedef\s+)?enum\b", head):
        return "enum"
    if re.match(r"(typedef\s+|static\s+|constinit\s+)*(class|struct|union)\b", head) and "=" not in head:
        return "class"
    return "other"


def has_value(statement):
    """True if an initial value has begun, no matter what is in parentheses."""
    return re.search(r"(?<!operator)=", re.sub(r"\([^()]*\)", "", statement.partition("{")[0]).replace("==", "")) is not None


def statements(text):
    """(line number, scope, statement) of each statement in the scope of a namespace or a class, and of each
    enumeration's list of enumerators. The bodies of functions are left out, initial values are not."""
    scopes = ["namespace"]
    begin = 0
    inside = 0  # braces of a function's body or of an initial value
    for at, char in enumerate(text):
        if char == "{":
            if inside:
                inside += 1
                continue
            scope = scope_of(ACCESS.sub("", text[begin:at]))
            if scope == "other":
                inside = 1
            else:
                scopes.append(scope)
                begin = at + 1
        elif char == "}":
            if inside:
                inside -= 1
                # After an initial value the statement continues, after a function's body it does not.
                if not inside and not has_value(text[begin:at]) and not re.match(r"\s*[;,()\[{]", text[at + 1:at + 80]):
                    begin = at + 1
            else:
                if scopes[-1] == "enum":
                    yield begin, "enum", text[begin:at]
                if len(scopes) > 1:
                    scopes.pop()
                begin = at + 1
        elif char == ";" and not inside:
            if scopes[-1] in ("namespace", "class"):
                yield begin, scopes[-1], text[begin:at]
            begin = at + 1


def split(text):
    """The parts of `text` between commas that are in no brackets."""
    depth = 0
    begin = 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def is_derived(value):
    return set(NUMBER.findall(value)) <= {"0", "1"} and bool(OTHER_CONSTANT.search(value))


class Scanner:
    """Finds constants, given the aliases of arithmetic types."""

    def __init__(self, texts):
        aliases = set()
        for text in texts:
            aliases.update(re.findall(rf"\busing\s+(\w+)\s*=\s*(?:{ARITHMETIC})\s*;", text))
        types = "|".join([ARITHMETIC, "pthread_key_t", "pid_t", "time_t"] + sorted(aliases))
        self.numeric = re.compile(rf"(?:(?:std::)?array\s*<\s*)?(?:\w+::)*(?:{types})\b")

    def constants(self, text):
        """(line number, name, value) of each numeric constant, derived ones left out."""
        for begin, scope, statement in statements(text):
            for name, value in self.enumerators(statement) if scope == "enum" else self.declared(statement):
                at = begin + re.search(rf"\b{name}\b", text[begin:]).start()
                yield text.count("\n", 0, at) + 1, name, value

    @staticmethod
    def enumerators(statement):
        for part in split(statement):
            name, _, value = part.partition("=")
            if value and not is_derived(value) and not {n for n in NUMBER.findall(value)} <= {"0", "1"}:
                yield name.strip(), value.strip()

    def declared(self, statement):
        statement = ACCESS.sub("", statement).strip()
        match = DECLARATION.match(statement)
        if not match or not re.search(r"\bconst(expr)?\b", match["specifiers"]) or match["pointer"].strip():
            return
        if not self.numeric.fullmatch(re.match(r"[^>]*", match["type"])[0].split(",")[0].strip()):
            return
        name = match["name"]
        for part in split(match["value"]):
            if part is not None and not part.lstrip().startswith(("=", "{")):
                more = re.match(r"\s*(\w+)\s*(=.*)", part, re.DOTALL)
                if not more:
                    continue
                name, part = more[1], more[2]
            if re.search(r"\d", part) and not is_derived(part) and not tuning_constants.TUNED.search(part):
                yield name, " ".join(part.split())


PLANTED = """
namespace a { namespace {
constexpr size_t kSeen = size_t{64} << 10;
inline constexpr std::array<int, 2> kSeenArray = {2, 3};
const int kSeenConst = 5;
constexpr uint32_t kOne = 1, kSeenTwo = 2, kSize = sizeof(kOne);
constexpr size_t kDerived = kSeen * kOne + 1;
constexpr size_t kHalfDerived = kSeen / 2;
constexpr unsigned long kBraces{7};
constexpr const char* kText = nullptr;
constexpr bool kFlag = true;
constexpr size_t kTuned = Tuned(7, 1, 9);
constexpr Length kTunedLength = TunedLength(64_KiB, 1_KiB, 1_MiB);
constexpr Entry kTable[] = {{1, 2}, {3, 4}};
size_t variable = 9;
int Function(int a = 3) { constexpr int kLocal = 8; return a + kLocal; }
template <typename T>
class C : public B<T> {
 public:
  static constexpr Place kMember = 30;
  int F() const { if (x) { return 4; } return 5; }
 private:
  static constexpr double kRate = 0.5;
  size_t member_ = 12;
  const uint8_t part_ = 13;
  enum Kind : uint8_t { kNone = 0, kSome = 1, kThreshold = 64 };
};
constexpr auto kComputed = [] { return 2; }();
} }
using Place = size_t;
"""
FOUND = ["kSeen", "kSeenArray", "kSeenConst", "kOne", "kSeenTwo", "kHalfDerived", "kBraces", "kMember", "kRate", "part_",
         "kThreshold", "kComputed"]


def check(root):
    complaints = source.Complaints(root)
    planted = [name for _, name, _ in Scanner([PLANTED]).constants(plain(PLANTED))]
    if planted != FOUND:
        complaints.add(pathlib.Path(__file__), 1, f"finds {planted} in the sample, not {FOUND}")
    listed = {}
    for line in CONSTANTS.strip().replace("\n    ", " ").split("\n"):
        file, names, reason = line.split(": ")
        for name in names.split():
            if reason not in REASONS or (file, name) in listed:
                complaints.add(pathlib.Path(__file__), 1, f"{file}: {name}: listed twice, or no such reason: {reason}")
            listed[file, name] = reason
    texts = {source.name_of(root, path): plain(path.read_text()) for path in source.library_files(root)}
    scanner = Scanner(texts.values())
    seen = set()
    for file, text in texts.items():
        for line, name, value in scanner.constants(text):
            seen.add((file, name))
            if (file, name) not in listed:
                complaints.add(source.place_of(root, file), line, f"{name} {value}: mark it (src/base/tuned.h), or list it in "
                               f"scripts/lint/tuning.py")
    for file, name in sorted(set(listed) - seen):
        complaints.add(pathlib.Path(__file__), 1, f"{file}: {name}: there is no such constant")
    tuned = tuning_constants.constants(root)
    everything = "\n".join(texts.values())
    for one in tuned:
        if not tuning_constants.EVIDENCE.search(" ".join(one.comment)):
            complaints.add(root / one.file, one.line, f"{one.name}: say what was measured and where, or \"Not measured\"")
        if len(re.findall(rf"\b{one.name}\b", everything)) < 2:
            complaints.add(root / one.file, one.line, f"nothing uses {one.name}")
    marks = sum(len(tuning_constants.TUNED.findall(text)) for file, text in texts.items() if file != "base/tuned.h")
    if marks != sum(len(one.values) for one in tuned):
        complaints.add(pathlib.Path(__file__), 1, f"{marks} uses of Tuned, but {sum(len(one.values) for one in tuned)} "
                       "in the constants that scripts/tuning_constants.py finds")
    if len(tuned) > MOST:
        complaints.add(pathlib.Path(__file__), 1, f"there are {len(tuned)} tuning constants, more than {MOST}")
    print(f"{len(tuned)} tuning constants, {len(seen)} others, {complaints.count} complaints")
    return 1 if complaints.count or len(tuned) < 50 else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()))
