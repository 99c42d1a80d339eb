/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A gated lock around fork (src/os/gated_lock.h), for the model checker spin.
 *
 * The threads. Lockers of the parent take the lock again and again. The forking thread closes the
 * gate, waits until the lock is free, uses the lock in a fork handler, forks, uses the lock again,
 * and opens the gate. The search continues in the parent or in the child. In the child the lockers
 * of the parent do not exist, at whatever step they were; a handler has started a new locker there.
 * Where a thread of the parent has the lock, the forking thread takes it by force, and frees it.
 *
 * An impatient forking thread marks a lock that it finds taken, and may fork without waiting for it.
 * A lock that is still marked in the child stays taken, and the program cannot use it.
 *
 * Memory is sequentially consistent. The reorderings that it forbids are mistakes here: a locker
 * that reads the gate before its store to the lock is visible, a forking thread that reads the lock
 * before its store to the gate is visible.
 *
 * What is checked. At most one thread is in the critical section; in the child a thread that stopped
 * to exist stays there. No locker is in it from the end of the wait to the opening of the gate. At
 * the end no thread that does not exist has the lock, unless the lock is marked.
 *
 * Define at most one of these mistakes:
 *   GATE_READ_FIRST     a locker reads the gate before it takes the lock, not after
 *   LOCK_READ_FIRST     the forking thread reads the lock before it closes the gate
 *   FREES_ANY           the child frees the lock of any thread, the new one included
 *   STRAY_STAYS         the child does not free the lock of a thread that it lacks
 *   INCOMPLETE_STAYS    as STRAY_STAYS, but only after a hold that did not wait for the lock
 *   FREES_MISSED        the child frees a marked lock, too
 */

#define FREE 0
#define FORKING 1
#define NEW 2
#define OLD(i) (3 + (i))
#define OLD_LOCKERS 2
/* True in the child if the owner is a thread that the child lacks, as far as the child can tell. */
#ifdef FREES_ANY
#define IsOld(owner) ((owner) > FORKING)
#else
#define IsOld(owner) ((owner) > NEW)
#endif
#ifdef FREES_MISSED
#define IsStray(owner) IsOld(owner)
#else
#define IsStray(owner) (IsOld(owner) && !missed)
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

byte lock = FREE;
/* The mark. It belongs to the lock, and unlocking removes it. */
bit missed;
bit closed;
bit in_child;

/* Not part of the machine: the thread in the critical section, and whether lockers must not be
 * there. */
byte inside = FREE;
bit held;

#define Unlock() lock = FREE; missed = 0

/* A thread of the parent does not exist in the child. */
#define Step(action) \
  if \
  :: in_child && me != NEW -> goto gone \
  :: atomic { !(in_child && me != NEW) -> action } \
  fi

proctype Locker(byte me) {
  byte rounds = 0;
  bit seen_closed;
  do
  :: rounds == ROUNDS -> break
  :: rounds < ROUNDS ->
#ifdef GATE_READ_FIRST
    Step(seen_closed = closed);
#endif
    if
    :: in_child && (me != NEW || missed) -> goto gone
    :: atomic { !(in_child && me != NEW) && lock == FREE -> lock = me }
    fi;
#ifndef GATE_READ_FIRST
    Step(seen_closed = closed);
#endif
    if
    :: seen_closed ->
      Step(assert(lock == me); Unlock());
      if
      :: in_child && me != NEW -> goto gone
      :: atomic { !(in_child && me != NEW) && !closed -> skip }
      fi
    :: else ->
      Step(assert(inside == FREE && !held); inside = me);
      Step(assert(inside == me && !held); inside = FREE);
      Step(assert(lock == me); Unlock());
      rounds++
    fi
  od;
gone:
  skip
}

inline EnterAndLeave() {
  assert(inside == FREE);
  inside = FORKING;
  assert(inside == FORKING);
  inside = FREE;
  atomic { Unlock() }
}

active proctype Forking() {
  byte i = 0;
  bit gave_up;
  do
  :: i == OLD_LOCKERS -> break
  :: i < OLD_LOCKERS -> run Locker(OLD(i)); i++
  od;
#ifdef LOCK_READ_FIRST
  lock == FREE;
  closed = 1;
#else
  closed = 1;
  if
  :: lock == FREE
  :: atomic { lock != FREE -> missed = 1 };
    if
    :: lock == FREE
    :: gave_up = 1
    fi
  fi;
#endif
  if
  :: !gave_up -> assert(inside == FREE); held = 1
  :: gave_up
  fi;
  /* Another library may have a prepare handler. */
  if
  :: atomic { lock == FREE -> lock = FORKING };
    EnterAndLeave()
  :: skip
  fi;
  if
  :: atomic { in_child = 1; run Locker(NEW) }
  :: skip
  fi;
  /* Another library may have a handler that runs before ours. */
  if
  :: atomic { lock == FREE -> lock = FORKING };
    EnterAndLeave()
  :: in_child && IsStray(lock) -> lock = FORKING; /* not in one step with the look */
    EnterAndLeave()
  :: skip
  fi;
#ifndef STRAY_STAYS
  if
#ifdef INCOMPLETE_STAYS
  :: gave_up -> skip
  :: atomic { !gave_up && in_child && IsStray(lock) -> Unlock() }
#else
  :: atomic { in_child && IsStray(lock) -> Unlock() }
#endif
  :: atomic { !(in_child && IsStray(lock)) -> skip }
  fi;
#endif
  assert(!in_child || lock == FREE || lock == NEW || missed);
  atomic { held = 0; closed = 0 };
  /* Uses the lock later. */
  if
  :: in_child && missed -> skip
  :: atomic { lock == FREE -> lock = FORKING };
    EnterAndLeave()
  fi
}
