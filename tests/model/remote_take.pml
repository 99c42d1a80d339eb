/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The taking of a thread's cache by another thread (src/cache/thread_slot.h, docs/remote-flush.md),
 * for the model checker spin, on a machine with explicit store buffers.
 *
 * The machine. A store goes into its thread's buffer and leaves it for memory at some later moment;
 * a load is performed at once and sees the thread's own newest store, else memory. So the owner's
 * load of `bins` may be performed long before its store of `busy` can be seen by others.
 *   TSO (x86): stores leave in the order in which they were made.
 *   PSO: stores to different variables leave in any order, but a release store only after all
 *   stores before it. (Later stores may overtake a release store, as on aarch64.)
 * An atomic read-modify-write acts on memory. In a lock it drains the buffer before it: of a lock
 * under TSO, of an unlock (a release) under both.
 * membarrier: there is a moment between its call and its return at which a thread's buffer is
 * empty, for each thread at a moment of its own.
 * What cannot be expressed: a missing acquire. Loads are performed in the order of the program
 * here, which is what acquire asks for. ThreadSanitizer is the one to see that.
 *
 * The threads. The owner publishes its cache, has access sections of several kinds, and ends, or
 * does not, at any time. Takers, one at a time under the registry's lock, swap the pointer, issue
 * the barrier (which may fail), look at `busy`, empty the cache when it is theirs, and put the
 * pointer back. That a taker who finds `busy` asks the owner to flush is not modelled: the owner
 * may flush whenever it likes.
 *
 * What is checked. `where` says, outside the machine, where each object is at the moment when it is
 * moved. Whoever is inside the cache must see just that in it: with every load, the other side's
 * work is visible in full; nobody else is inside; at the end memory says the same, so that no
 * object is lost or in two places. Nobody touches a cache or a slot whose memory is gone.
 *
 * Define TSO or PSO, and at most one of these mistakes:
 *   NO_MEMBARRIER          the taker has a barrier of its own only
 *   NO_RELEASE_BUSY        busy = 0 is a relaxed store                        (harmless under TSO)
 *   NO_RELEASE_POINTER     the taker puts the pointer back by a relaxed store (harmless under TSO)
 *   LOAD_BEFORE_BUSY       the compiler moves the load of `bins` before busy = 1
 *   NESTED_SECTION         a signal handler has a section inside a section, and clears `busy`
 *   SLOW_PATH_STALE        the slow path acts in a section on what it read in the one before
 *   PUBLISH_WITHOUT_LOCK   the owner lists its cache, and stores the pointer later, without the lock
 *   EXIT_WITHOUT_LOCK      the owner leaves the registry without its lock
 *   PUT_BACK_WITHOUT_LOCK  the taker puts the pointer back after it let go of the lock
 *   TAKE_WITHOUT_LOCK      two takers at a time
 *   SLOT_RECYCLED          the owner ends without leaving the registry: its slot is gone
 */

#if !defined(TSO) && !defined(PSO)
#error "define TSO or PSO"
#endif

/* The owner's access sections, of which the slow path takes two. */
#ifndef SECTIONS
#define SECTIONS 4
#endif
#define TAKERS 2
#ifndef TAKINGS
#define TAKINGS 2 /* by each taker */
#endif
/* How many stores a buffer holds; a thread that has this many waits. A section makes three or
   four: two sections may be in the buffer together. */
#define DEPTH 6

/* The variables of the machine. */
#define BUSY 0
#define BINS 1
#define OBJECT(k) (2 + (k)) /* object k is in the cache */
#define OBJECTS 2
/* The values of BINS. */
#define EMPTY 0
#define CACHE 1

/* The kinds of store. */
#define RELAXED 0
#define RELEASE 1
#ifdef NO_RELEASE_BUSY
#define BUSY_RELEASE RELAXED
#else
#define BUSY_RELEASE RELEASE
#endif
#ifdef NO_RELEASE_POINTER
#define POINTER_RELEASE RELAXED
#else
#define POINTER_RELEASE RELEASE
#endif

/* The threads. */
#define OWNER 0
#define TAKER(i) (1 + (i))
#define THREADS (1 + TAKERS)

bit memory[2 + OBJECTS];

/* entry: the variable, the value (1 bit), the kind of store (1 bit); unused entries are 0. */
typedef Buffer {
  byte length;
  byte entry[DEPTH]
};
Buffer buffer[THREADS];

#define Length(t) buffer[t].length
#define Variable(t, i) (buffer[t].entry[i] >> 2)
#define Value(t, i) ((buffer[t].entry[i] >> 1) & 1)
#define IsRelease(t, i) (buffer[t].entry[i] & 1)

bit registry_lock;
bit listed;

/* Outside the machine: what is true. */
#define IN_CENTRAL 0
#define IN_CACHE 1
#define WITH_OWNER 2
byte where[OBJECTS];
bit owner_inside;
byte takers_inside;
bit cache_gone;
bit slot_gone;
byte threads_done;

#define RequirePresent(v) \
  assert(!(slot_gone && (v) <= BINS)); \
  assert(!(cache_gone && (v) > BINS))

inline Store(t, v, x, kind) {
  d_step {
    Length(t) < DEPTH;
    buffer[t].entry[Length(t)] = ((v) << 2) | ((x) << 1) | (kind);
    Length(t)++
  }
}

inline Load(t, v, x) {
  d_step {
    RequirePresent(v);
    x = memory[v];
    i = 0;
    do
    :: i < Length(t) ->
       if
       :: Variable(t, i) == (v) -> x = Value(t, i)
       :: else
       fi;
       i++
    :: else -> break
    od;
    i = 0
  }
}

/* Entry `index` leaves for memory. */
#define Leave(t, index) \
  i = index; \
  RequirePresent(Variable(t, i)); \
  memory[Variable(t, i)] = Value(t, i); \
  do \
  :: i + 1 < Length(t) -> buffer[t].entry[i] = buffer[t].entry[i + 1]; i++ \
  :: else -> break \
  od; \
  Length(t)--; \
  buffer[t].entry[Length(t)] = 0; \
  i = 0

/* Entry i need not wait for the first, first two, ... entries before it. */
#define Passes1(t, i) (!IsRelease(t, i) && Variable(t, i) != Variable(t, 0))
#define Passes2(t, i) (Passes1(t, i) && Variable(t, i) != Variable(t, 1))
#define Passes3(t, i) (Passes2(t, i) && Variable(t, i) != Variable(t, 2))
#define Passes4(t, i) (Passes3(t, i) && Variable(t, i) != Variable(t, 3))
#define Passes5(t, i) (Passes4(t, i) && Variable(t, i) != Variable(t, 4))

proctype StoreBuffer(byte t) {
  byte i;
end:
  do
  :: d_step { Length(t) > 0; Leave(t, 0) }
#ifdef PSO
  :: d_step { Length(t) > 1 && Passes1(t, 1); Leave(t, 1) }
  :: d_step { Length(t) > 2 && Passes2(t, 2); Leave(t, 2) }
  :: d_step { Length(t) > 3 && Passes3(t, 3); Leave(t, 3) }
  :: d_step { Length(t) > 4 && Passes4(t, 4); Leave(t, 4) }
  :: d_step { Length(t) > 5 && Passes5(t, 5); Leave(t, 5) }
#endif
  od
}

/* A barrier of thread t waits until its stores are visible. */
#define Drained(t) (Length(t) == 0)

inline Lock(t) {
#ifdef TSO
  atomic { registry_lock == 0 && Drained(t); registry_lock = 1 }
#else
  atomic { registry_lock == 0; registry_lock = 1 }
#endif
}

inline Unlock(t) {
  atomic { Drained(t); registry_lock = 0 }
}

/* Whoever is inside sees of object k what is true. */
#define RequireTrue(k, x) assert((x) == (where[k] == IN_CACHE))

/* ------------------------------------------------------------------------------------ The owner */

inline BeginAccess() {
#ifndef LOAD_BEFORE_BUSY
  Store(OWNER, BUSY, 1, RELAXED);
#endif
  atomic {
    Load(OWNER, BINS, bins);
    if
    :: bins == CACHE -> assert(takers_inside == 0); owner_inside = 1
    :: else
    fi
  };
#ifdef LOAD_BEFORE_BUSY
  Store(OWNER, BUSY, 1, RELAXED);
#endif
#ifdef NESTED_SECTION
  if
  :: Store(OWNER, BUSY, 1, RELAXED);
     Store(OWNER, BUSY, 0, BUSY_RELEASE)
  :: skip
  fi;
#endif
}

inline EndAccess() {
  atomic { Store(OWNER, BUSY, 0, BUSY_RELEASE); owner_inside = 0; bins = EMPTY }
}

/* Takes object k out of the cache, or puts it in. `x`: whether it is there. */
inline Move(k) {
  if
  :: atomic { x; Store(OWNER, OBJECT(k), 0, RELAXED); where[k] = WITH_OWNER }
  :: atomic { !x && where[k] == WITH_OWNER;
              Store(OWNER, OBJECT(k), 1, RELAXED); where[k] = IN_CACHE }
  :: atomic { !x && where[k] != WITH_OWNER }
  fi
}

/* Between a slow path's sections the owner may exchange objects with the central cache. */
inline Exchange(k) {
  if
  :: atomic { where[k] == WITH_OWNER; where[k] = IN_CENTRAL }
  :: atomic { where[k] == IN_CENTRAL; where[k] = WITH_OWNER }
  :: skip
  fi
}

/* malloc or free that finds what it needs, or finds the cache taken. */
inline FastPath(k) {
  BeginAccess();
  if
  :: bins == CACHE -> Load(OWNER, OBJECT(k), x); RequireTrue(k, x); Move(k)
  :: else
  fi;
  EndAccess()
}

/* A section that looks, a visit to the central cache, a section that moves both objects. What the
   first saw (x) is out of date in the second. */
inline SlowPath() {
  BeginAccess();
  if
  :: bins == CACHE -> Load(OWNER, OBJECT(0), x); RequireTrue(0, x)
  :: else
  fi;
  EndAccess();
  Exchange(0);
  Exchange(1);
  BeginAccess();
  if
  :: bins == CACHE ->
#ifndef SLOW_PATH_STALE
     Load(OWNER, OBJECT(0), x);
#endif
     RequireTrue(0, x);
     Move(0);
     Load(OWNER, OBJECT(1), x);
     RequireTrue(1, x);
     Move(1)
  :: else
  fi;
  EndAccess()
}

inline Publish() {
  Lock(OWNER);
  listed = 1;
#ifdef PUBLISH_WITHOUT_LOCK
  Unlock(OWNER);
  Store(OWNER, BINS, CACHE, RELEASE)
#else
  Store(OWNER, BINS, CACHE, RELEASE);
  Unlock(OWNER)
#endif
}

inline Exit() {
#ifndef SLOT_RECYCLED
#ifndef EXIT_WITHOUT_LOCK
  Lock(OWNER);
#endif
  listed = 0;
  Store(OWNER, BINS, EMPTY, RELEASE);
#ifndef EXIT_WITHOUT_LOCK
  Unlock(OWNER);
#endif
  /* The cache is the owner's alone now, without an access section. */
  atomic { assert(takers_inside == 0); owner_inside = 1 };
  Load(OWNER, OBJECT(0), x);
  RequireTrue(0, x);
  atomic { Store(OWNER, OBJECT(0), 0, RELAXED); where[0] = IN_CENTRAL };
  Load(OWNER, OBJECT(1), x);
  RequireTrue(1, x);
  atomic { Store(OWNER, OBJECT(1), 0, RELAXED); where[1] = IN_CENTRAL };
  owner_inside = 0;
  atomic { Drained(OWNER); cache_gone = 1 };
#endif
  atomic { Drained(OWNER); slot_gone = 1 }
}

proctype Owner() {
  byte sections;
  byte i;
  bit bins;
  bit x;
  Publish();
  do
  :: atomic { sections < SECTIONS; sections++ }; FastPath(0)
  :: atomic { sections < SECTIONS; sections++ }; FastPath(1)
  :: atomic { sections + 1 < SECTIONS; sections = sections + 2 }; SlowPath()
  :: atomic { sections = 0; x = 0 }; break
  od;
  if
#ifndef TAKE_WITHOUT_LOCK /* whose failure is to be the takers' own */
  :: Exit()
#endif
  :: skip /* idle from now on */
  fi;
  threads_done++
}

/* ------------------------------------------------------------------------------------- A taker */

inline Membarrier(t) {
  Drained(t);
#ifndef NO_MEMBARRIER
  Drained(OWNER);
#endif
}

inline TakeObject(t, k) {
  Load(t, OBJECT(k), x);
  RequireTrue(k, x);
  if
  :: atomic { x; Store(t, OBJECT(k), 0, RELAXED); where[k] = IN_CENTRAL }
  :: !x
  fi
}

inline Take(t) {
  Store(t, BINS, EMPTY, RELAXED);
  if
  :: Membarrier(t); Load(t, BUSY, busy)
  :: busy = 1 /* the system call failed */
  fi;
  if
  :: !busy ->
     atomic { assert(!owner_inside && takers_inside == 0); takers_inside++ };
     TakeObject(t, 0);
     TakeObject(t, 1);
     takers_inside--
  :: busy
  fi;
#ifdef PUT_BACK_WITHOUT_LOCK
  Unlock(t);
#endif
  Store(t, BINS, CACHE, POINTER_RELEASE);
#ifdef PUT_BACK_WITHOUT_LOCK
  Lock(t);
#endif
}

proctype Taker(byte t) {
  byte takings;
  byte i;
  bit busy;
  bit x;
  do
  :: takings < TAKINGS ->
#ifndef TAKE_WITHOUT_LOCK
     Lock(t);
#endif
     if
     :: listed -> Take(t)
     :: !listed
     fi;
#ifndef TAKE_WITHOUT_LOCK
     Unlock(t);
#endif
     atomic { takings++; busy = 0; x = 0 }
  :: else -> break
  od;
  threads_done++
}

init {
  byte t;
  atomic {
    /* One object in the new cache, one in the program's hands. */
    memory[OBJECT(0)] = 1;
    where[0] = IN_CACHE;
    where[1] = WITH_OWNER;
    run Owner();
    t = 0;
    do
    :: t < TAKERS -> run Taker(TAKER(t)); t++
    :: else -> break
    od;
    t = 0;
    do
    :: t < THREADS -> run StoreBuffer(t); t++
    :: else -> t = 0; break
    od
  };
  atomic {
    threads_done == 1 + TAKERS && Drained(OWNER) && Drained(TAKER(0)) && Drained(TAKER(1));
    RequireTrue(0, memory[OBJECT(0)]);
    RequireTrue(1, memory[OBJECT(1)])
  }
}
