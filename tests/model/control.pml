/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests from outside of the process (src/heap/control.h), for the model checker spin.
 *
 * Two commands write a request each, without a lock between them: what is requested, the check,
 * two halves of the ticket, in any order. Then each waits for its reply, gives up, or
 * withdraws the request. Two threads look for requests.
 *
 * With FORK one command writes and one thread looks for requests, and at any moment the process may
 * fork: the search then continues in the child, where the threads of the parent do not exist and
 * into which the first command does not write. A thread of the child looks for requests, and another
 * command makes one of it.
 *
 * Memory is sequentially consistent, except for the order of the commands' writes.
 *
 * What is checked. Only whole requests are carried out, none twice, and none of the parent's in the
 * child. A reply that a command accepts is the reply to its own request, and says whether that was
 * carried out. The child carries out its own request.
 *
 * Define at most one of these mistakes, the last three with FORK:
 *   NO_CHECK           a request is carried out whatever its check
 *   CHECK_LESS_TICKET  the ticket is not covered by the check
 *   NO_BUSY            several threads may carry out requests at once
 *   NOT_TAKEN          the ticket of a request is not noted as taken
 *   REPLY_STAYS        the reply's ticket is not cleared while the rest changes
 *   READ_ONCE          a command does not look at the reply's ticket again
 *   WITHDRAW_TICKET    a command withdraws by storing the last ticket that was taken
 *   CHILD_REMEMBERS    the child does not declare its parent's request taken
 *   CHILD_TOO_EARLY    the child looks for requests before it has declared that
 *   CHILD_STAYS_BUSY   the child does not note that the thread that carried out requests does not exist
 */

#define NONE 0
#define CHILDS 3
#define GARBLED 4
#define Whole(request) ((request) * 4 + (request))
#define Ticket (low * 4 + high)

byte text, check, low, high;
byte taken;
bit busy;
byte reply_ticket, reply_body;
bit in_child;

/* Not part of the machine: how often each request was carried out. */
byte done[4];

#ifdef NO_CHECK
#define IsIntact 1
#else
#ifdef CHECK_LESS_TICKET
#define IsIntact (a == c)
#else
#define IsIntact (a == c && ticket == Whole(c))
#endif
#endif

#ifdef NO_BUSY
#define MayEnter 1
#else
#define MayEnter (!busy)
#endif

/* In the child, a thread or command of the parent no longer exists. */
#ifndef FORK
#define Step(action) atomic { action }
#define Vanishes 0
#else
#define Vanishes (in_child && !of_child)
#define Step(action) \
  if \
  :: Vanishes -> goto gone \
  :: atomic { !(Vanishes) -> action } \
  fi
#endif

proctype Thread(bit of_child) {
  byte ticket, a, c;
end:
  do
#ifdef FORK
  :: Vanishes -> goto gone
#endif
  :: atomic { !(Vanishes) && Ticket != taken && MayEnter -> busy = 1 };
    Step(ticket = Ticket);
    if
    :: ticket == taken -> Step(busy = 0)
    :: else ->
#ifndef NOT_TAKEN
      Step(taken = ticket);
#endif
#ifndef REPLY_STAYS
      Step(reply_ticket = NONE);
#endif
      Step(a = text);
      Step(c = check);
      if
      :: IsIntact ->
        Step(assert(a != NONE && ticket == Whole(a));
             assert(done[a] == 0 && (a == CHILDS || !of_child)); done[a]++; reply_body = a)
      :: !(IsIntact) -> Step(reply_body = GARBLED)
      fi;
      Step(reply_ticket = ticket);
      Step(busy = 0)
    fi;
    atomic { ticket = 0; a = 0; c = 0 }
  od
#ifdef FORK
  ;
gone:
  skip
#endif
}

#ifdef READ_ONCE
#define IsStillMine (!in_child)
#else
#define IsStillMine (!in_child && reply_ticket == Whole(me))
#endif

/* A command that makes a request of the parent. */
proctype Command(byte me) {
  bit of_child = 0;
  bit wrote_text, wrote_check, wrote_low, wrote_high;
  byte body;
  do
  :: !wrote_text -> Step(text = me; wrote_text = 1)
  :: !wrote_check -> Step(check = me; wrote_check = 1)
  :: !wrote_low -> Step(low = me; wrote_low = 1)
  :: !wrote_high -> Step(high = me; wrote_high = 1)
  :: atomic { wrote_text && wrote_check && wrote_low && wrote_high ->
       wrote_text = 0; wrote_check = 0; wrote_low = 0; wrote_high = 0 };
    break
  od;
  if
  :: reply_ticket == Whole(me) -> /* not in one step with the next */
    Step(body = reply_body);
    if
    :: IsStillMine ->
      Step(assert(body == me || body == GARBLED); assert(done[me] == (body == me)))
    :: else
    fi
#ifdef WITHDRAW_TICKET
  :: Step(body = taken);
    Step(low = body / 4);
    Step(high = body % 4)
#else
  :: Step(check = NONE)
#endif
  :: skip
  fi
#ifdef FORK
  ;
gone:
  skip
#endif
}

#ifdef FORK
proctype CommandOfChild() {
  byte me = CHILDS;
  text = me;
  check = me;
  low = me;
  high = me;
  reply_ticket == Whole(me) || timeout;
  assert(reply_ticket == Whole(me) && reply_body == me)
}
#endif

#ifndef FORK
init {
  atomic { run Thread(0); run Thread(0); run Command(1); run Command(2) }
}
#else
/* The thread that forks holds the heap, and so carries out no requests. */
init {
  atomic { run Thread(0); run Command(1) };
  in_child = 1;
#ifdef CHILD_TOO_EARLY
  run Thread(1);
#endif
#ifndef CHILD_REMEMBERS
  taken = Ticket;
#endif
#ifndef CHILD_STAYS_BUSY
  busy = 0;
#endif
  reply_ticket = NONE;
#ifndef CHILD_TOO_EARLY
  run Thread(1);
#endif
  run CommandOfChild()
}
#endif
