/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The taking of a thread's cache by another thread (src/thread_cache/thread_slot.h, docs/remote-flush.md),
 * for the model checker spin, on a machine with explicit store buffers.
 *
 * The machine. A store goes into its thread's buffer and leaves it for memory at some later moment;
 * a load is performed at once and sees the thread's own newest store, else memory. So the owner's
 * load of `bins` may be performed long before its store of `busy` can be seen by others.
 *   TSO (x86): stores leave in the order in which they were made.
 *   PSO: stores to different variables leave in any order, but a release store only after all
 *   stores before it. (Later stores may overtake a release store, as on aarch64.)
 *   ARM: as PSO, and loads are reordered too: a load may have been performed earlier than its place in
 *   the program, but not before the last acquire. So after another thread changed a variable, a
 *   thread may still load the value from before (`stale`), until it loads the new one, has an acquire,
 *   or executes a barrier. A load whose address comes from another load is performed after that
 *   one. If a variable changed twice, the thread may miss one value, but no more.
 * An atomic read-modify-write acts on memory. The buffer is drained before it: in a lock under TSO,
 * in an unlock (a release) under both.
 * membarrier: there is a moment between its call and its return at which a thread's buffer is
 * empty and no later load of it was performed, for each thread at a moment of its own.
 * What TSO and PSO cannot express is a missing acquire: loads are performed in the order of the
 * program there. ARM can.
 * What ARM leaves out, so that less can happen here than on the machine:
 *   - A load is performed at its place in the program or before, never after it. So no store
 *     overtakes an earlier load. In the code each of these loads is followed by a release store, by a
 *     store at an address that it gives, or by a branch on its value and then a store: ARM orders
 *     them.
 *   - After a load of an old pointer, the loads at its address see the newest values. Only the old
 *     EMPTY is of interest, at which no section reads the cache: the old CACHE ends with the barrier
 *     of all threads, before a taker changes anything.
 *
 * The threads. The owner publishes its cache, has access sections of several kinds, and ends, or
 * does not, at any time. Takers, one at a time under the registry's lock, swap the pointer, issue
 * the barrier (which may fail), look at `busy`, empty the cache when it is theirs, and put the
 * pointer back. A taker that finds `busy` set asks the owner to flush. This is not modelled,
 * because the owner may flush at any time.
 *
 * What is checked. `where` is not part of the machine. It says where each object is from the moment
 * when it is moved. A thread inside the cache must find exactly that in it: every load sees the
 * other side's work completely, no other thread is inside, and at the end memory says the same, so
 * that no object is lost or in two places. No thread touches a cache or a slot whose memory no
 * longer exists.
 *
 * Define TSO, PSO or ARM, and at most one of these mistakes:
 *   NO_MEMBARRIER          the taker has a barrier of its own only
 *   NO_RELEASE_BUSY        busy = 0 is a relaxed store                        (harmless under TSO)
 *   NO_RELEASE_POINTER     the taker puts the pointer back by a relaxed store (harmless under TSO)
 *   NO_DEPENDENCY          the fast path reads the cache at an address it knew before   (ARM only)
 *   NO_ACQUIRE_POINTER     a slow path's section loads the pointer without acquire      (ARM only)
 *   NO_ACQUIRE_BUSY        the taker loads `busy` without acquire                       (ARM only)
 *   LOAD_BEFORE_BUSY       the compiler moves the load of `bins` before busy = 1
 *   NESTED_SECTION         a signal handler has a section inside a section, and clears `busy`
 *   SLOW_PATH_STALE        the slow path acts in a section on what it read in the one before
 *   PUBLISH_WITHOUT_LOCK   the owner lists its cache, and stores the pointer later, without the lock
 *   EXIT_WITHOUT_LOCK      the owner leaves the registry without its lock
 *   PUT_BACK_WITHOUT_LOCK  the taker puts the pointer back after it let go of the lock
 *   TAKE_WITHOUT_LOCK      two takers at a time
 *   SLOT_RECYCLED          the owner ends without leaving the registry: its slot is gone
 */

#if defined(ARM)
#define PSO
#elif !defined(TSO) && !defined(PSO)
#error "define TSO, PSO or ARM"
#endif

/* The owner's access sections, of which the slow path takes two, and the takings by each taker. With ARM's
   order each has many more states. */
#define TAKERS 2
#ifdef ARM
#define SECTIONS 3
#define TAKINGS 1
#else
#define SECTIONS 4
#define TAKINGS 2
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

/* Not part of the machine: the true state. */
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

#ifdef ARM
/* A bit for each variable: the thread may load the other value than memory has. */
byte stale[THREADS];
#define OfVariable(v) (1 << (v))
#define IsStale(t, v) ((stale[t] & OfVariable(v)) != 0)
#define MakeFresh(t, v) stale[t] = stale[t] & ~OfVariable(v)
/* No later load was performed before this. */
#define Acquire(t) stale[t] = 0
/* No later load at an address that is computed from this one's value. */
#define Depend(t) MakeFresh(t, OBJECT(0)); MakeFresh(t, OBJECT(1))
/* The variables that a thread may load before its next acquire. The owner never loads `busy`,
   takers never load the pointer, and takers load nothing outside of the lock. */
byte watched[THREADS];
#define OBJECTS_WATCHED (OfVariable(OBJECT(0)) | OfVariable(OBJECT(1)))
#define BeginWatching(t) watched[t] = OBJECTS_WATCHED | OfVariable(BUSY)
#define EndWatching(t) watched[t] = 0; stale[t] = 0
/* Thread t changes v. Its own loads are after its store. */
#define MakeStale(t, v) \
  stale[OWNER] = stale[OWNER] | (OfVariable(v) & watched[OWNER]); \
  stale[TAKER(0)] = stale[TAKER(0)] | (OfVariable(v) & watched[TAKER(0)]); \
  stale[TAKER(1)] = stale[TAKER(1)] | (OfVariable(v) & watched[TAKER(1)]); \
  MakeFresh(t, v)
#else
#define Acquire(t) skip
#define Depend(t) skip
#define MakeStale(t, v) skip
#define BeginWatching(t) skip
#define EndWatching(t) skip
#endif

/* Loads the thread's own newest store, or the value in memory. */
inline LoadNew(t, v, x) {
  d_step {
    RequirePresent(v);
    x = memory[v];
#ifdef ARM
    MakeFresh(t, v);
#endif
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

#ifdef ARM
/* True if a store of thread t to v is in its buffer. */
#define At(t, i, v) (Length(t) > i && Variable(t, i) == (v))
#define Buffered(t, v) \
  (At(t, 0, v) || At(t, 1, v) || At(t, 2, v) || At(t, 3, v) || At(t, 4, v) || At(t, 5, v))
inline Load(t, v, x) {
  if
  :: LoadNew(t, v, x)
  :: d_step { IsStale(t, v) && !Buffered(t, v); RequirePresent(v); x = !memory[v] }
  fi
}
#else
#define Load LoadNew
#endif

/* Entry `index` leaves the buffer for memory. */
#define Leave(t, index) \
  i = index; \
  RequirePresent(Variable(t, i)); \
  if \
  :: memory[Variable(t, i)] != Value(t, i) -> MakeStale(t, Variable(t, i)) \
  :: else \
  fi; \
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
  atomic { registry_lock == 0; registry_lock = 1; Acquire(t) }
#endif
}

inline Unlock(t) {
  atomic { Drained(t); registry_lock = 0 }
}

/* The thread inside sees the true state of object k. */
#define RequireTrue(k, x) assert((x) == (where[k] == IN_CACHE))

/* ------------------------------------------------------------------------------------ The owner */

/* What the load of the pointer orders. */
#ifdef NO_DEPENDENCY
#define ByAddress skip
#else
#define ByAddress Depend(OWNER)
#endif
#ifdef NO_ACQUIRE_POINTER
#define ByAcquire skip
#else
#define ByAcquire Acquire(OWNER)
#endif

inline SetBusy() {
#ifndef LOAD_BEFORE_BUSY
  Store(OWNER, BUSY, 1, RELAXED)
#else
  skip
#endif
}

inline Enter() {
  if
  :: bins == CACHE -> assert(takers_inside == 0); owner_inside = 1
  :: else
  fi
}

inline Entered() {
#ifdef LOAD_BEFORE_BUSY
  Store(OWNER, BUSY, 1, RELAXED)
#else
  skip
#endif
#ifdef NESTED_SECTION
  ;
  if
  :: Store(OWNER, BUSY, 1, RELAXED);
     Store(OWNER, BUSY, 0, BUSY_RELEASE)
  :: skip
  fi
#endif
}

inline BeginFastAccess() {
  SetBusy();
  atomic { Load(OWNER, BINS, bins); ByAddress; Enter() };
  Entered()
}

inline BeginAccess() {
  SetBusy();
  atomic { Load(OWNER, BINS, bins); ByAcquire; Enter() };
  Entered()
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

/* A malloc or free that finds an object or room in the cache, or finds the cache taken. */
inline FastPath(k) {
  BeginFastAccess();
  if
  :: bins == CACHE -> Load(OWNER, OBJECT(k), x); RequireTrue(k, x); Move(k)
  :: else
  fi;
  EndAccess()
}

/* A section that reads the cache, then a visit to the central cache, then a section that moves both
   objects. What the first section read (x) is out of date in the second. */
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
  atomic { Drained(t); Acquire(t) };
#ifndef NO_MEMBARRIER
  atomic { Drained(OWNER); Acquire(OWNER) };
  /* The system call ends with a barrier of its own, after those of all threads. */
  Acquire(t)
#endif
}

#ifdef NO_ACQUIRE_BUSY
#define BusyAcquire(t) skip
#else
#define BusyAcquire(t) Acquire(t)
#endif

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
  :: Membarrier(t); atomic { Load(t, BUSY, busy); BusyAcquire(t) }
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
     :: listed -> BeginWatching(t); Take(t); EndWatching(t)
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
    /* One object is in the new cache, the other one belongs to the program. */
    memory[OBJECT(0)] = 1;
    where[0] = IN_CACHE;
    where[1] = WITH_OWNER;
#ifdef ARM
    watched[OWNER] = OBJECTS_WATCHED | OfVariable(BINS);
#endif
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
