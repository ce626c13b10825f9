// The fence as a model for spin; README.md says what it shows and how it is run.
//
// One session with one key. OWNERS owners, each behind a proxy of its own, say up to COMMANDS guarded commands each, reads
// and writes in any order. A d_step is what Redis does in one: a script of internal/tokenstore/lua, a command, an EXEC.
// Between any two of them anybody else may act, and whatever can go wrong may.

#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef COMMANDS
#define COMMANDS 3
#endif
#ifndef LOSSES
#define LOSSES 0 // of the record: evicted or expired, or flushed with the data, as by a restart without them
#endif
#ifndef FAILOVERS
#define FAILOVERS 0 // to a replica that lacks what was written last; at most 1
#endif
#ifndef CUTS
#define CUTS 0 // connections that break under a commit
#endif
// ELSEWHERE: a lock provider elsewhere grants.
// LOCK: no owner looks, and no lease that has ended is taken up again.
// COARSE: what is said in one write is not interleaved, but for a begin; not with failovers and cuts.
// RULE: one, many or lingers; all of them unless it is given.

// UPDATE is the claim. HOLDS are the invariants that bear it; with UPDATES_ONLY nobody looks at them, so that a
// counterexample is a lost update.
#define UPDATE(x) assert(x)
#ifdef UPDATES_ONLY
#define HOLDS(x) skip
#else
#define HOLDS(x) assert(x)
#endif

// ---- the store ------------------------------------------------------------------------------------------------------

// A session's record. Zero stands for what is missing; owners count from 1. A hold that does not carry the newest grant
// protects nobody, and is not kept here.
typedef Store {
  bool t, ttl;        // :t is there, and expires
  byte g, sg, ss;     // :t newest grant, last token stored
  byte owner;         // :h whose hold
  bool unused;        // :h says that g is nobody's
  byte first, second; // :q
  // Of the key that it guards, for each owner: is what it has read last there, or what it has written last? (Or does that go
  // on from what is there, after a failover that has lost writes?) And has its write under way been applied?
  bool read[OWNERS], wrote[OWNERS], done[OWNERS];
}
Store at, replica;
#if FAILOVERS
byte readOf[OWNERS]; // whose write under way the owner has read: made again behind a failover, it is the same
#endif
bool follows;  // what is in the key goes on from what the replica has of it

byte most;     // the largest grant that was given
byte stamps;   // that looks have made, where grants come from elsewhere

// What an owner's connection has under WATCH.
#define TOKEN 1
#define BOTH  2 // :t and :q
byte watch[OWNERS];
bool dirty[OWNERS];

byte losses = LOSSES, failovers = FAILOVERS, cuts = CUTS;
bool copied;                   // the replica has got what it will get
bool down[OWNERS];             // the connection broke
byte locked, number, numbers;  // at the lock provider elsewhere: whose the lock is, its grant, and the last one given
byte begun;                    // owners that have said something

hidden byte k, n;

// An owner's grants: of its sequence, of what a script has granted or found, of the write that it presents, and the largest
// that its proxy has seen.
byte mine[OWNERS], found[OWNERS], presents[OWNERS], saw[OWNERS];
#define my    mine[i]
#define got   found[i]
#define grant presents[i]
#define floor saw[i]

// Where the store grants, only the order of grants matters, so numbers that nobody knows any more are closed up. That makes
// the states fewer.
#if !defined(ELSEWHERE) && !defined(BREAK_GROW) && !defined(CLOCK_BACK)
#define RENUMBER renumber()
#else
#define RENUMBER skip
#endif
hidden byte v;
hidden byte known;
inline lower(x) { x = (x > v -> x - 1 : x) }
inline renumber() {
  v = most;
  do
  :: v > 1 ->
     v--;
     known = at.g == v || at.sg == v || replica.g == v || replica.sg == v;
     for (k : 0 .. OWNERS - 1) {
       known = known || mine[k] == v || found[k] == v || presents[k] == v || saw[k] == v
     };
     if
     :: !known ->
        lower(most); lower(at.g); lower(at.sg); lower(replica.g); lower(replica.sg);
        for (k : 0 .. OWNERS - 1) {
          lower(mine[k]); lower(found[k]); lower(presents[k]); lower(saw[k])
        }
     :: else
     fi
  :: else -> break
  od;
  skip
}

#define MINE (at.owner == i + 1)

inline touch(what) {
  for (k : 0 .. OWNERS - 1) {
    if
    :: watch[k] >= what -> dirty[k] = true
    :: else
    fi
  }
}

inline change() { // the key
  for (k : 0 .. OWNERS - 1) {
    at.read[k] = false; at.wrote[k] = false
  }
}

inline given(grant_) {
#ifdef ELSEWHERE
  HOLDS(grant_ > at.g || at.unused || num == my); // invariant 1; the provider's own numbers only grow
#else
  HOLDS(grant_ > most); // invariant 1
#endif
  most = (grant_ > most -> grant_ : most)
}

// newer() in clock.lua: above the last one, above all that the caller has seen, and the store's clock, which is past every
// grant ever given. In given.lua: a number that nobody has.
inline newer() {
#if defined(ELSEWHERE)
  n = at.g + 1
#elif defined(BREAK_GROW)
  n = at.g + 1; given(n)
#elif defined(CLOCK_BACK)
  n = (floor > at.g -> floor : at.g) + 1; given(n)
#else
  n = most + 1; given(n)
#endif
}

inline put(newest, grant_, seq_) {
  at.t = true; at.g = newest; at.sg = grant_; at.ss = seq_;
#ifndef BREAK_TTL
  at.ttl = true;
#endif
  HOLDS(at.ttl); // invariant 7
  touch(TOKEN);
  RENUMBER
}

inline occupy(o) { at.owner = o; at.unused = false }
inline vacate() { at.owner = 0; at.unused = false }

inline unqueue() {
  if
  :: at.first == i + 1 -> at.first = at.second; at.second = 0; touch(BOTH)
  :: at.first != i + 1 && at.second == i + 1 -> at.second = 0; touch(BOTH)
  :: else
  fi
}

// handover() in record.lua: the first waiter gets the session, with a grant of its own.
inline handover() {
  if
  :: at.first ->
     newer(); put(n, at.sg, at.ss); occupy(at.first);
     at.first = at.second; at.second = 0; touch(BOTH)
  :: else
  fi
}

#ifdef BREAK_UNUSED
#define NOBODYS false
#else
#define NOBODYS at.unused // the number was given before a failover, and is used up behind it
#endif

// What was read is current while its grant is the newest, or if it was read without one, while the last token stored is
// the same.
#define CURRENT (at.t && (state == Seen -> at.sg == my && at.ss == seq : my && at.g == my))

#define GOT got = at.g; gotSeq = (at.sg == at.g -> at.ss : 0)

// begin.lua: grants, or queues the caller behind who holds.
inline begin(queues) {
  continuous = CURRENT;
  if
  :: MINE -> unqueue()
  :: else ->
     if
     :: !at.owner && at.first && at.first != i + 1 -> handover()
     :: else
     fi;
     if
     :: !at.owner -> unqueue(); newer(); put(n, at.sg, at.ss); occupy(i + 1)
     :: at.owner && queues && at.first != i + 1 && at.second != i + 1 ->
        if
        :: at.first == 0 -> at.first = i + 1
        :: else -> at.second = i + 1
        fi;
        touch(BOTH)
     :: else
     fi
  fi;
  granted = MINE; GOT
}

// register.lua: a grant from elsewhere counts from now on, if it is newer than every one so far.
inline register() {
  continuous = CURRENT;
  granted = true;
  if
#ifndef BREAK_BEHIND
  :: num <= at.g && !(num == at.g && (at.unused || state != Seen && my == at.g && !at.owner)) ->
     granted = num == at.g && MINE // said twice
#endif
  :: else ->
     if
     :: num == my && state != Seen
     :: else -> given(num)
     fi;
     put(num, at.sg, at.ss); occupy(i + 1)
  fi;
  GOT
}

// leave.lua: a waiter gives up, or hands on what was reserved for it.
inline leave() {
  if
  :: MINE -> vacate(); handover()
  :: else -> unqueue()
  fi
}

// look.lua: reads the last token stored; a record without one gets one that no other record of the session has.
inline look() {
  if
  :: at.sg == 0 ->
#if defined(BREAK_STAMP)
     put(at.g, 0, 0)
#elif defined(ELSEWHERE)
     stamps++; put(at.g, 128 + stamps, 0)
#else
     if
     :: at.t -> n = at.g
     :: else -> newer()
     fi;
     put(n, n, 0)
#endif
  :: else
  fi;
  got = at.sg; gotSeq = at.ss
}

// renew.lua, which takes a lapsed hold up again.
inline renew() {
  granted = at.g == my && !NOBODYS;
  if
  :: granted -> occupy(i + 1)
  :: else
  fi
}

// What the proxy gives back to the lock provider elsewhere, if it is still its own.
inline giveBack() {
#ifdef ELSEWHERE
  if
  :: locked == i + 1 && number == num -> locked = 0; number = 0
  :: else
  fi;
  num = 0
#else
  skip
#endif
}

// release.lua: ends a hold, and with revoke uses its grant up, so that nothing is written under it any more.
inline release(revoke) {
  if
  :: at.t && at.g == my && (!at.owner || MINE) ->
     at.owner = 0;
     if
     :: revoke ->
        newer(); put(n, at.sg, at.ss);
#ifdef ELSEWHERE
        at.unused = true
#endif
     :: else
     fi;
     handover()
  :: else
  fi;
  giveBack()
}

// check.lua and checkgiven.lua. What is not good touches a key under WATCH, so that the EXEC behind it applies nothing.
mtype = { good, missing, superseded, stored, changed, held, ungranted };
inline check() {
  verdict = good;
  if
#ifdef CLASSIC
  :: grant && !(grant > at.sg || grant == at.sg && as > at.ss) -> verdict = stored
#else
#ifndef BREAK_MISSING
  :: grant && !at.t -> verdict = missing
#endif
  :: grant && at.t && (at.g != grant || NOBODYS) -> verdict = superseded
  :: grant && at.t && at.g == grant && !NOBODYS && at.sg == grant && at.ss >= as -> verdict = stored
#endif
#ifdef ELSEWHERE
  :: !grant -> verdict = ungranted
#endif
#ifndef ELSEWHERE
  :: !grant && state == Seen && !at.t -> verdict = missing
  :: !grant && state == Seen && at.t && !CURRENT -> verdict = changed
  :: !grant && (state != Seen || CURRENT) && (at.owner && !MINE || at.first) -> verdict = held
#endif
  :: else
  fi;
  HOLDS(verdict != ungranted);
  if
  :: verdict == good
  :: verdict != good && !grant -> touch(BOTH)
#ifdef ELSEWHERE
  :: verdict != good && grant -> touch(TOKEN)
#else
  :: verdict != good && grant && at.t -> touch(TOKEN)
  :: verdict != good && grant && !at.t -> newer(); put(n, 0, 0)
#endif
  fi
}

// The client's own command.
inline apply() {
  UPDATE(!depends || at.read[i]);         // what it writes goes on from what is there
  HOLDS(!grant || at.t && at.g == grant); // its grant is the newest one issued; invariant 2
  HOLDS(!at.done[i]);                     // invariant 4: nothing is applied twice
  change(); at.wrote[i] = true; replica.wrote[i] = follows; at.done[i] = true;
#if FAILOVERS
  for (k : 0 .. OWNERS - 1) {
    at.read[k] = readOf[k] == i + 1
  };
  skip
#endif
}

// settle.lua, in the transaction of the client's command: stores the token, grants what holds nothing, releases. got is the
// grant that was stored.
inline settle() {
  if
  :: grant -> got = grant
  :: else -> newer(); got = n
  fi;
  HOLDS(at.ss == 0 || got > at.sg || got == at.sg && as > at.ss); // its token is greater than the last one stored
  put(got, got, as);
  if
  :: keep -> occupy(i + 1)
  :: else -> vacate(); handover()
  fi
}

// EXEC
inline exec() {
  if
#ifdef BREAK_ATOMIC
  :: verdict == good || verdict == 0 -> apply(); settle(); again = false
#else
  :: !dirty[i] -> apply(); settle(); again = false
#endif
  :: else -> again = true
  fi;
  stands = false; watch[i] = 0; dirty[i] = false
}

// ---- an owner and its proxy -----------------------------------------------------------------------------------------

mtype = { Free, Held, Ended, Broken, Seen }; // internal/lock/sequence.go
mtype = { one, many, lingers };              // the rule: writes_per_read one or many, or linger
mtype rule;

mtype = { applied, skipped, untold };        // fate.go

// The seq of a write that holds nothing: no other one has it. Only findOut looks at it.
#if CUTS || FAILOVERS
#define MARK (100 + OWNERS * left + i)
#else
#define MARK 1
#endif

// A proxy knows the largest grant that it has seen.
#if CUTS || defined(CLOCK_BACK)
#define SAW(it) floor = (it > floor -> it : floor)
#else
#define SAW(it) skip
#endif

#if FAILOVERS
#define DOWN down[i]
#else
#define DOWN false
#endif
#if CUTS
#define CUT (DOWN || cuts)
#else
#define CUT DOWN
#endif

// The client says one more thing. Owners are alike, so they may as well begin in their order.
#define SAYS (left && (left < COMMANDS || begun == i))
inline say() {
  begun = (left == COMMANDS -> begun + 1 : begun);
  left--
}

// What it has said is answered.
inline answered() {
  granted = false; continuous = false; writing = false; taken = false; waited = false; tried = false; keep = false;
  again = false; got = 0; gotSeq = 0; grant = 0; as = 0; verdict = 0; fate = 0;
  at.done[i] = false; replica.done[i] = false;
  if
  :: !stands -> watch[i] = 0; dirty[i] = false
  :: else
  fi;
  if
  :: !depends -> at.read[i] = false; replica.read[i] = false
  :: else
  fi;
  at.wrote[i] = false; replica.wrote[i] = false;
#if FAILOVERS
  for (k : 0 .. OWNERS - 1) {
    readOf[k] = (readOf[k] == i + 1 || k == i && !depends -> 0 : readOf[k])
  };
#endif
  RENUMBER
}

inline reads() {
  at.read[i] = true; replica.read[i] = follows;
#if FAILOVERS
  for (k : 0 .. OWNERS - 1) {
    readOf[i] = (k == 0 -> 0 : readOf[i]);
    readOf[i] = (at.wrote[k] && at.done[k] -> k + 1 : readOf[i])
  };
  skip
#endif
}

inline answeredRead() {
  depends = true; SAW(got);
  HOLDS(!owed); // invariant 3
  answered()
}

// The sequence starts from nothing.
inline clear() { state = Free; my = 0; seq = 0; depends = false; stands = false }

inline refused() { // FENCED, or LOCKED: nothing was written
  HOLDS(!at.done[i]);
  giveBack(); answered()
}

inline reported() { clear(); owed = false; refused() }

// The hold was lost in the middle: the next command is told.
inline breakOff() {
  owed = true; stands = false; watch[i] = 0; dirty[i] = false;
#ifdef BREAK_REPORT
  state = Free; my = 0; seq = 0
#else
  state = Broken
#endif
}

inline acquire() {
  locked = i + 1; numbers++; number = numbers; num = numbers
}

// What a write presents.
inline present() {
  writing = true; verdict = 0;
  if
  :: state == Held || state == Ended -> grant = my; as = seq + 1
  :: else -> grant = 0; as = MARK
  fi;
  keep = state == Held && !taken && rule != one
}

inline standWatch() {
  stands = false; watch[i] = (grant -> TOKEN : BOTH); dirty[i] = false
}

// The connection broke under a commit. Redis closes its end, so that what it has not carried out it never will, and
// in the same transaction says what the record is (outcome.go, fate.go).
inline findOut() {
  cuts = (DOWN -> cuts : cuts - 1); down[i] = false;
  stands = false; watch[i] = 0; dirty[i] = false; verdict = 0;
  if
#ifdef BREAK_RETRY
  :: true -> fate = skipped
#else
  :: grant && at.t && NOBODYS -> fate = untold
  :: grant && at.t && !NOBODYS && at.sg == grant && at.ss == as -> fate = applied; got = grant
  :: grant && at.t && !NOBODYS && !(at.sg == grant && at.ss >= as) && !(at.sg > grant || at.g < grant || at.g > grant && at.ss == 0) ->
#if defined(ELSEWHERE) && !defined(BREAK_FATE)
     fate = (at.g == grant -> skipped : untold)
#else
     fate = skipped
#endif
  :: !grant && at.t && at.sg > floor && at.ss == as -> fate = applied; got = at.sg
  :: !grant && at.t && !(at.sg > floor && at.ss == as) &&
     (at.g <= floor || at.sg <= floor && at.ss > 0 || state == Seen && CURRENT) -> fate = skipped
  :: else -> fate = untold
#endif
  fi;
  HOLDS(fate != applied || at.done[i]); HOLDS(fate != skipped || !at.done[i]) // invariant 4
}

// A session that is taken for a write, after what that goes on from.
#ifdef BREAK_SILENT
#define STALE false
#else
#define STALE (depends && !continuous)
#endif

proctype Owner(byte i) {
  byte left = COMMANDS;
  bool depends;              // the client has read, and its next write goes on from that
  mtype state = Free;
  byte seq;                  // of the last write under my; of Seen: my and seq are the token that was seen
  bool stands;               // the fence: a WATCH since the record was seen to carry the grant
  bool owed;                 // the client does not know yet that its sequence is broken
  byte num;                  // the grant from elsewhere that is held
#ifdef BREAK_SILENCE
  bool late;                 // a commit is still on its way
#endif
  // Of the command under way:
  bool granted, continuous, writing, taken, waited, tried, keep, again;
  byte gotSeq, as;           // the seqs of got and grant
  mtype verdict, fate;

idle:
  if
  // Any command, once the sequence is broken.
  :: d_step { SAYS && state == Broken -> say(); reported() }; goto idle
#if FAILOVERS
  // Or the connection, between a read and its write.
  :: d_step {
       SAYS && DOWN && depends && state != Broken -> say();
       if
       :: state == Held -> release(false)
       :: else
       fi;
       down[i] = false; reported()
     };
     goto idle
  :: d_step { DOWN && !depends && state != Broken -> down[i] = false; stands = false }; goto idle
#endif

  // A read of one who holds nothing: EVALSHA begin, or register | WATCH :t | GET :t | GET key
#ifdef ELSEWHERE
  :: d_step { SAYS && !DOWN && state != Held && state != Broken && !locked -> say(); acquire() }; goto registers
#else
  :: d_step {
       SAYS && !DOWN && state != Held && state != Broken -> say();
#ifdef BREAK_LATE
       reads(); depends = true; // and is granted behind it
#endif
       begin(true)
     };
     goto taken_
#endif
#ifndef LOCK
  // … in mode fence or auto: EVALSHA look | GET key
  :: d_step {
       SAYS && !DOWN && state != Held && state != Broken -> say();
#ifdef BREAK_LOOK
       reads()
#else
       look()
#endif
     };
     goto looked
  // … of one who holds: GET :t | GET key, or to take it up again, begin once more
  :: d_step { SAYS && !DOWN && state == Held -> say(); granted = at.t && at.g == my; got = my; gotSeq = seq };
     if
     :: granted -> goto value
     :: else -> d_step { reported() }; goto idle
     fi
#ifndef ELSEWHERE
  :: d_step { SAYS && !DOWN && state == Held -> say(); begin(false) };
     if
     :: granted && continuous -> goto watches
     :: granted && !continuous -> d_step { my = got; release(false); reported() }; goto idle
     :: else -> d_step { reported() }; goto idle
     fi
#endif

#endif
  // A write where the fence stands: MULTI | the command | EVALSHA settle | EXEC
  :: d_step { SAYS && !DOWN && state == Held && stands -> say(); present(); exec() }; goto executed
  // … elsewhere: WATCH :t | EVAL check | MULTI | the command | EVALSHA settle | EXEC
#ifdef ELSEWHERE
  :: d_step { SAYS && !DOWN && (state == Held && !stands || state == Ended) -> say(); present(); standWatch() }; goto checks
  :: d_step { SAYS && !DOWN && (state == Free || state == Seen) && !locked -> say(); writing = true; acquire() }; goto registers
#else
#ifdef COARSE
  :: d_step { SAYS && !DOWN && state != Broken && !stands -> say(); present(); standWatch(); check(); exec() }; goto executed
#else
  :: d_step { SAYS && !DOWN && state != Broken && !stands -> say(); present(); standWatch() }; goto checks
#endif
#endif
  // … on a connection that breaks
#if CUTS || FAILOVERS
#ifdef ELSEWHERE
  :: d_step { SAYS && CUT && (state == Held || state == Ended) -> say(); present(); findOut() }; goto outcome
#else
  :: d_step { SAYS && CUT && state != Broken -> say(); present(); findOut() }; goto outcome
#endif
#endif
#ifdef BREAK_THROUGH
  :: d_step { SAYS -> say(); change(); skip }; goto idle // a command that the proxy does not know
#endif

  // keeper.go: idle, max_hold, a renewal, and what the lock provider elsewhere has ended
  :: d_step {
       state == Held -> release(false);
       stands = false; watch[i] = 0; dirty[i] = false;
       if
       :: depends -> state = Ended
       :: else -> clear()
       fi
     };
     goto idle
  :: d_step { state == Held -> release(true); breakOff() }; goto idle
#ifndef LOCK
  :: d_step {
       state == Held && !MINE -> renew();
       if
       :: granted
       :: else -> giveBack(); breakOff()
       fi;
       granted = false
     };
     goto idle
#endif
#ifdef ELSEWHERE
  :: d_step { state == Held && !(locked == i + 1 && number == num) -> release(false); breakOff() }; goto idle
#endif
  :: left == 0 -> goto gone
  fi;

#ifdef ELSEWHERE
registers:
  if
#ifdef BREAK_LATE
  :: !writing && !depends -> d_step { reads(); depends = true }; goto registers // it reads, and is registered behind that
  :: d_step { writing || depends -> register() }
#else
  :: d_step { !DOWN -> register() }
  :: DOWN -> d_step { refused() }; goto idle // it is sent again, as the next command is
#endif
  fi;
  if
  :: granted -> goto taken_
  :: else
  fi;
  d_step { giveBack() };
asks:
  if
  :: d_step { !locked -> acquire() }; goto registers
  :: d_step { refused() }; goto idle // wait is over
  fi;
#endif

taken_:
  if
  :: granted && !writing -> goto watches
  :: granted && writing && STALE -> d_step { my = got; release(false); reported() }; goto idle
  :: granted && writing && !STALE ->
     d_step { state = Held; my = got; seq = gotSeq; SAW(got); taken = true; stands = false; got = 0; gotSeq = 0 };
     goto again_
  :: !granted
  fi;
  if
  :: d_step { !waited && (MINE || !at.owner) -> waited = true; begin(true) }; goto taken_ // woken, or the lease has ended
  :: d_step { leave(); refused() }; goto idle                                           // wait is over
  fi;

watches:
#ifdef COARSE
  if
  :: d_step {
       watch[i] = TOKEN; dirty[i] = false; stands = at.t && at.g == got;
       reads();
       my = got; seq = gotSeq; state = Held;
       answeredRead()
     };
     goto idle
  fi;
#else
  if
  :: d_step { watch[i] = TOKEN; dirty[i] = false; granted = false; continuous = false; waited = false }
  fi;
  d_step { stands = at.t && at.g == got };
#endif

value:
  if
  :: d_step {
       !DOWN;
#ifndef BREAK_LATE
       reads();
#endif
       my = got; seq = gotSeq; state = Held;
       answeredRead()
     };
     goto idle
  :: DOWN -> d_step { stands = false; refused() }; goto idle // it is sent again, as the next command is
  fi;

looked:
  if
  :: d_step {
       !DOWN;
#ifdef BREAK_LOOK
       look();
#else
       reads();
#endif
       state = Seen; my = got; seq = gotSeq; stands = false;
       answeredRead()
     };
     goto idle
  :: DOWN -> d_step { refused() }; goto idle
  fi;

again_: // it is presented, or presented again, with a check
#ifdef COARSE
  if
  :: d_step { true -> present(); standWatch(); check(); exec() }; goto executed
  fi;
#endif
  if
  :: d_step { !DOWN -> present(); standWatch() }
  :: d_step { CUT -> present(); findOut() }; goto outcome
  fi;
checks:
  if
  :: d_step { !DOWN -> check() }
  :: d_step { CUT -> findOut() }; goto outcome
  fi;
  if
  :: d_step { !DOWN -> exec() }
  :: d_step { CUT -> findOut() }; goto outcome
  fi;

executed:
  if
  :: !DOWN && !again -> goto ok
  :: !DOWN && again && (verdict == good || verdict == 0) -> goto again_ // another came between: the next check tells
  :: d_step { !DOWN && again && verdict == held && !tried -> tried = true; begin(true) }; goto taken_ // it waits for the holder
  :: d_step { !DOWN && again && verdict == held && tried -> refused() }; goto idle
  :: !DOWN && again && verdict != held && verdict != good && verdict != 0 ->
     if
     :: taken && !depends && !tried ->
        d_step { tried = true; taken = false; giveBack(); clear() };
#ifdef ELSEWHERE
        goto asks
#else
        goto again_
#endif
     :: taken && !depends && tried -> d_step { clear(); refused() }; goto idle
     :: else ->
#ifdef BREAK_SILENT
        d_step { begin(true) }; goto taken_
#else
        d_step { reported() }; goto idle
#endif
     fi
  :: d_step { CUT -> findOut() }; goto outcome // the answer is lost
  fi;

outcome:
  if
  :: fate == applied -> goto ok
  :: fate == skipped ->
#ifdef BREAK_SILENCE
     late = !grant; // what was sent first may still come
#endif
     goto again_
  :: fate == untold
  :: true // or Redis could not be asked
  fi;
#ifdef BREAK_SUCCESS
  HOLDS(at.done[i]); // the client hears that it has written
#endif
  d_step { // FENCEUNKNOWN
    if
    :: state == Held -> release(false)
    :: else
    fi;
    clear(); owed = false; giveBack(); answered()
  };
  goto idle;

ok: // the client hears that it has written
  if
#ifdef BREAK_SILENCE
  :: d_step { late && !at.owner && !at.first -> late = false; grant = 0; apply(); settle() }
#endif
  :: true
  fi;
  d_step {
    HOLDS(!owed); // invariant 3
    SAW(got);
    if
    :: grant && keep -> my = got; seq = as; state = Held; depends = rule == many
    :: !(grant && keep) && rule == many && depends -> my = got; seq = as; state = (grant -> Ended : Seen); giveBack()
    :: else -> clear(); giveBack()
    fi;
    at.read[i] = at.wrote[i]; replica.read[i] = replica.wrote[i];
#if FAILOVERS
    readOf[i] = 0;
#endif
    answered()
  };
  goto idle;

gone:
  skip
}

// ---- what goes wrong ------------------------------------------------------------------------------------------------

inline copy(to, from) {
  to.t = from.t; to.ttl = from.ttl; to.g = from.g; to.sg = from.sg; to.ss = from.ss;
  to.owner = from.owner; to.unused = from.unused; to.first = from.first; to.second = from.second;
  for (k : 0 .. OWNERS - 1) {
    to.read[k] = from.read[k]; to.wrote[k] = from.wrote[k]; to.done[k] = from.done[k]
  }
}

inline lose() {
  at.t = false; at.ttl = false; at.g = 0; at.sg = 0; at.ss = 0; vacate(); touch(TOKEN)
}

active proctype Trouble() {
end:
  do
  :: d_step { at.owner -> vacate() }              // a lease ends
#ifdef ELSEWHERE
  :: d_step { locked -> locked = 0; number = 0 }  // … at the lock provider
#endif
#if LOSSES
  :: d_step { losses && at.t -> losses--; lose(); skip } // evicted, or expired
#ifdef LIMIT_FLUSH
  :: d_step { losses && at.t ->
#else
  :: d_step { losses && at.t && !copied -> // flushed, and no failover undoes it
#endif
       losses--; lose(); at.first = 0; at.second = 0; touch(BOTH);
       change(); follows = false;
       for (k : 0 .. OWNERS - 1) {
         at.done[k] = false
       };
       skip
     }
#endif
#if FAILOVERS
  :: d_step { failovers && !copied -> copied = true; follows = true; copy(replica, at); skip }
  :: d_step {
       failovers && copied -> failovers--; copied = false; follows = false;
       copy(at, replica);
       replica.t = false; replica.ttl = false; replica.g = 0; replica.sg = 0; replica.ss = 0; replica.owner = 0;
       replica.unused = false; replica.first = 0; replica.second = 0;
       for (k : 0 .. OWNERS - 1) {
         replica.read[k] = false; replica.wrote[k] = false; replica.done[k] = false;
         watch[k] = 0; dirty[k] = false; down[k] = true
       };
       skip
     }
#endif
#ifdef BYPASS
  :: d_step { most -> change(); skip } // a writer that reaches Redis without the proxy
#endif
  od
}

init {
  byte j;
  if
#ifdef RULE
  :: rule = RULE
#else
  :: rule = one
  :: rule = many
  :: rule = lingers
#endif
  fi;
  atomic {
    for (j : 0 .. OWNERS - 1) {
      run Owner(j)
    }
  }
}
