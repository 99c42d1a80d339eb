# SPDX-License-Identifier: BSD-3-Clause
#
# Commands of gdb that look into the heap of a live process or of a core, on 64-bit machines:
#
#   gdb -x docs/tcmalloc.gdb -p PID        gdb -x docs/tcmalloc.gdb PROGRAM CORE
#
# They need the library's full debug information (presets release, debug and clang). All but tc-check
# only read memory: they call no function of the process. docs/debugging.md shows what they print.

# The names are C++'s, also where the program is C.
set language c++

define tc-init
  set $tc_heap = (tcmalloc::Heap*)&tcmalloc::global_heap_storage
  if tcmalloc::heap_exists._M_base._M_i == 0
    printf "the process has not allocated yet\n"
  end
end
document tc-init
Find the heap. The other commands do this themselves.
end

define tc-heap
  tc-init
  set $tc_pages = &$tc_heap->page_heap.state_
  printf "%lu bytes from the system\n", $tc_pages->store.counts.system_bytes
  printf "%lu in spans of small objects\n", $tc_pages->store.counts.small_span_bytes
  printf "%lu in spans of large and of sampled objects, %lu of them\n", $tc_pages->store.counts.large_span_bytes, $tc_pages->store.counts.large_spans
  printf "%lu in spans of the allocator's records\n", $tc_pages->store.counts.metadata_span_bytes
  printf "%lu free and backed\n", $tc_pages->store.free_._M_elems[0].total_.value_._M_i * 8192
  printf "%lu free and released\n", $tc_pages->store.free_._M_elems[1].total_.value_._M_i * 8192
  printf "%lu on their way to the system\n", $tc_pages->store.counts.releasing_bytes
  printf "hard limit %lu, soft limit %lu\n", $tc_pages->governor.limits_.hard_bytes, $tc_pages->governor.limits_.soft_bytes
end
document tc-heap
tc-heap: what the page heap holds, in bytes. A limit of 18446744073709551615 is none.
end

define tc-lookup
  tc-init
  set $tc_address = (unsigned long)($arg0)
  set $tc_class = 0
  set $tc_span = (tcmalloc::Span*)0
  set $tc_distance = (unsigned long)0
  if $tc_address < ((unsigned long)1 << 48)
    set $tc_distance = tcmalloc::global_page_map.root_[$tc_address >> 32]._M_i
  end
  if $tc_distance != 0
    set $tc_leaf = (tcmalloc::PageMap::Leaf*)((char*)tcmalloc::global_page_map.empty_leaf_ + 2 * $tc_distance)
    set $tc_class = (int)$tc_leaf->classes[($tc_address >> 13) & 0x7ffff]._M_i / (int)sizeof(void*)
    set $tc_span = $tc_leaf->spans[($tc_address >> 13) & 0x7ffff]._M_b._M_p
  end
  if $tc_span != 0
    set $tc_start = (unsigned long)$tc_span->first_page.index_ << 13
    set $tc_end = $tc_start + ((unsigned long)$tc_span->num_pages.pages_ << 13)
    if $tc_address < $tc_start || $tc_address >= $tc_end
      # M2: only the first and the last page of such a span are sure to name it.
      set $tc_span = (tcmalloc::Span*)0
    end
  end
end
document tc-lookup
tc-lookup ADDRESS: set $tc_class and $tc_span to what the page map says of an address.
end

define tc-bins-of
  set $tc_cache = $arg0
  while $tc_cache != 0
    set $tc_array = $tc_cache->table_.arrays_._M_elems[$tc_class]._M_b._M_p
    set $tc_top = $tc_cache->table_.bins_.tops._M_elems[$tc_class]._M_b._M_p
    set $tc_slots = (unsigned long*)($tc_array + 1)
    if $tc_array != 0 && $tc_top > $tc_slots
      set $tc_slot = $tc_slots + 1
      while $tc_slot <= $tc_top
        if *$tc_slot == $tc_object
          printf "free: in the thread cache at %p\n", $tc_cache
          set $tc_found = $tc_found + 1
        end
        set $tc_slot = $tc_slot + 1
      end
    end
    set $tc_cache = $tc_cache->list_node.next
  end
end
document tc-bins-of
tc-bins-of CACHE: look for $tc_object in a list of thread caches. Part of tc-object.
end

define tc-object
  tc-lookup $arg0
  if $tc_span == 0
    printf "0x%lx: in no object of this allocator, or inside a large one\n", $tc_address
  else
    output $tc_span->state._M_i
    printf ": span 0x%lx-0x%lx, shard %d\n", $tc_start, $tc_end, $tc_span->owner._M_i & (tcmalloc::SpanOwner::kMaxShards - 1)
    if $tc_span->state._M_i == tcmalloc::SpanState::kFreeBacked || $tc_span->state._M_i == tcmalloc::SpanState::kFreeReleased
      printf "free: in the page heap\n"
    end
    if $tc_span->state._M_i == tcmalloc::SpanState::kUnused
      printf "free: inside a longer run of pages, or unmapped\n"
    end
    if $tc_span->state._M_i == tcmalloc::SpanState::kLarge
      set $tc_size = $tc_end - $tc_start
      set $tc_sampled = (int)*(unsigned char*)&$tc_span->sampled_class
      if $tc_sampled != 0
        set $tc_size = (unsigned long)tcmalloc::kSizeClasses.info_._M_elems[$tc_sampled].object_size
      end
      printf "in use by the program, %lu bytes at 0x%lx\n", $tc_size, $tc_start
    end
    if $tc_span->state._M_i == tcmalloc::SpanState::kSmall && $tc_class == 0
      printf "free: in a span that a shard keeps for its next use\n"
    end
    if $tc_class != 0
      set $tc_size = (unsigned long)tcmalloc::kSizeClasses.info_._M_elems[$tc_class].object_size
      set $tc_number = ($tc_address - $tc_start) / $tc_size
      set $tc_object = $tc_start + $tc_number * $tc_size
      printf "size class %d, object %lu of %u, %lu bytes at 0x%lx, pointer is %lu bytes into it\n", $tc_class, $tc_number, $tc_span->num_objects, $tc_size, $tc_object, $tc_address - $tc_object
      set $tc_found = 0
      if ($tc_span->free_bits[$tc_number / 64] >> ($tc_number % 64)) & 1
        printf "free: in the central free list\n"
        set $tc_found = $tc_found + 1
      end
      tc-bins-of $tc_heap->registry.caches_.first_
      tc-bins-of $tc_heap->registry.orphans_.first_
      tc-bins-of $tc_heap->registry.inherited_.first_
      if $tc_found == 0
        printf "in use by the program, or on its way between caches on a thread's stack\n"
      end
      if $tc_found > 1
        printf "found %d times: it was freed more than once\n", $tc_found
      end
    end
  end
end
document tc-object
tc-object ADDRESS: which object an address is in, and where the object is if it is free. ADDRESS is an
expression without spaces. Of a large object only addresses in its first and its last page are known.
end

define tc-caches
  tc-init
  set $tc_cache = $tc_heap->registry.caches_.first_
  while $tc_cache != 0
    printf "cache %p: slot %p, busy %d, %lu of %lu bytes claimed\n", $tc_cache, $tc_cache->slot_, $tc_cache->slot_->busy._M_i, $tc_cache->table_.claimed_bytes_.value_._M_i, $tc_cache->max_bytes_._M_i
    set $tc_class = 1
    while $tc_class < sizeof($tc_cache->table_.arrays_._M_elems) / sizeof($tc_cache->table_.arrays_._M_elems[0])
      set $tc_array = $tc_cache->table_.arrays_._M_elems[$tc_class]._M_b._M_p
      if $tc_array != 0
        printf "  class %d of %u bytes: %ld objects, limit %d\n", $tc_class, tcmalloc::kSizeClasses.info_._M_elems[$tc_class].object_size, $tc_cache->table_.bins_.tops._M_elems[$tc_class]._M_b._M_p - (unsigned long*)($tc_array + 1), $tc_array->limit
      end
      set $tc_class = $tc_class + 1
    end
    set $tc_cache = $tc_cache->list_node.next
  end
end
document tc-caches
tc-caches: the cache of each thread that has one, and its bins. The objects of a bin include a probe,
which is a null, in bins that a garbage collection has looked at.
end

define tc-lock
  set $tc_state = (unsigned int)($arg0).state_._M_i
  if $tc_state & 1
    output ($arg0).rank_
    printf " is held by the thread whose this_thread_number is %u", $tc_state >> 6
    if $tc_state & 4
      printf ", for fork"
    end
    printf "\n"
    set $tc_held = $tc_held + 1
  end
end
document tc-lock
tc-lock LOCK: print a SpinLock if it is held. Part of tc-locks.
end

define tc-locks
  tc-init
  set $tc_held = 0
  tc-lock $tc_heap->registry.lock_
  tc-lock $tc_heap->central.shards_.lock_
  tc-lock $tc_heap->holes.lock_
  tc-lock $tc_heap->page_heap.state_.lock
  tc-lock $tc_heap->arena.lock_
  set $tc_shard = 0
  while $tc_shard < tcmalloc::SpanOwner::kMaxShards
    set $tc_of_shard = $tc_heap->central.shards_.shards_._M_elems[$tc_shard]._M_b._M_p
    if $tc_of_shard != 0
      set $tc_class = 0
      while $tc_class < sizeof($tc_of_shard->locks_->locks._M_elems) / sizeof($tc_of_shard->locks_->locks._M_elems[0])
        tc-lock $tc_of_shard->locks_->locks._M_elems[$tc_class]
        set $tc_class = $tc_class + 1
      end
    end
    set $tc_shard = $tc_shard + 1
  end
  printf "%d locks held\n", $tc_held
end
document tc-locks
tc-locks: the heap's locks that are held, with their owners. Compare the number with what
"thread apply all print tcmalloc::this_thread_number" prints.
end

define tc-check
  tc-locks
  if $tc_held == 0
    set scheduler-locking on
    call $tc_heap->CheckInvariants()
    set scheduler-locking off
    printf "all invariants hold\n"
  end
end
document tc-check
tc-check: call Heap::CheckInvariants in the stopped process, unless a lock of the heap is held. The
library has the function only where it was linked with it: see docs/debugging.md.
end
