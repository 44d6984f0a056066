/* The ownership protocol for one range: leases, fences, commit on evidence, two leaders.
 *
 * Style: one loop of guarded commands; each option is one atomic step of one role. The network is a
 * soup of messages: what was sent stays available for ever, so that loss (never received), delay,
 * reordering and duplication are all covered by construction.
 *
 * Roles
 *   store   linearizable, conditional transactions
 *   leader  two coordinator processes 0 and 1, with terms; deposed ones keep running
 *   owner   NO data owners; everything that they hold is volatile
 *   client  writes carry ANY epoch 1..NE (older, equal, newer, never issued)
 *
 * Time: one global tick decrements all timers; processes may be arbitrarily slow between ticks. An
 * owner's lease lasts OL = LT+DRIFT real ticks from the moment at which the renewal was SENT (DRIFT:
 * the worst error of a slow clock). A leader believes in it for CL = LT+SLACK ticks from the moment
 * at which it GRANTED. Sound if SLACK >= DRIFT.
 *
 * Invariants (asserted after every step, and at every acknowledgement)
 *   I1 at most one owner can accept a write for the key at any instant
 *   I2 no write is acknowledged under epoch e once an epoch > e has been activated anywhere
 *   I3 a write acknowledged under e is acknowledged by the owner that the store names for e
 *   I4 only a committed epoch is ever activated; an owner's epoch <= the stored one
 *   I5 the stored epoch only grows
 *   I6 no wedge: while nothing is in Fencing, the present owner is never fenced out of its epoch
 *
 * -DM_x leaves a rule out (README.md names them); each must be caught. -DWIT=n are witnesses: their
 * assertion must fail, which proves that the behaviour is reached.
 *
 * The comments `step:`, `guard:` and `left out:` tie the leader's actions to
 * migrations/transition_table.h; model_table_test reads them.
 *
 * left out: Warmed, Verified, Promoted, HoldOver, UndoPossible, RecipientsReady.
 * These only restrict when a step is taken: the model takes it at any time.
 */
#ifndef NO
#define NO 2
#endif
#ifndef NE
#define NE 4
#endif
#ifndef LT
#define LT 1
#endif
#ifndef DRIFT
#define DRIFT 1
#endif
#ifndef SLACK
#define SLACK 1
#endif
#ifndef MAXTERM
#define MAXTERM 3
#endif
#ifndef LV
#define LV 1
#endif
#define OL (LT+DRIFT)
#define CL (LT+SLACK)
#define NE1 (NE+1)

/* Store (persistent). */
byte sTerm = 1;         /* leader term                                   */
byte sEpoch = 1;        /* committed epoch of the range                    */
byte sNew = 0;          /* epoch reserved by the migration in FENCING    */
byte sNext = 2;         /* next never-used epoch (never reused)          */
bool sFencing = false;  /* migration stage: false=IDLE/DONE true=FENCING */
byte eOwner[NE1];       /* owner named by each epoch (immutable)         */
/* Leaders (volatile). */
byte cTerm[2];
#ifdef EARLY
byte lead[2];           /* remaining own view of the leadership lease    */
#define LEADON LV
#else
bool lead[2];           /* own view of the leadership lease              */
#define LEADON true
#endif
byte cl[2*NO];          /* believed remaining session lease, any grant   */
byte ca[2];             /* range-lease countdown snapshotted at FENCING    */
/* Message soup. */
bool mFence[NE1];
bool mAck[NE1];
bool mAct[NE1];
byte gr[2*NO];          /* grant for the CURRENT request: 0 none, floor+1 */
/* Owners (volatile). */
byte oAct[NO];          /* epoch the owner believes active (0 none)      */
byte oFloor[NO];        /* all epochs <= floor are closed for ever       */
byte oLease[NO];
byte oReq[NO];          /* remaining life the outstanding request can buy */
byte oAdm[NO];          /* epoch of an admitted, not yet acked write     */
#ifdef REG
byte oReg[NO];          /* session: term of the leader that PERSISTED it  */
#endif
/* Ghosts. */
bool gCom[NE1];         /* epoch became the stored epoch                 */
byte gMax = 0;          /* highest epoch ever activated by any owner     */
#if ONLY==3
byte gBy[NO];           /* highest epoch ever activated by this owner    */
#define NOTEBY(o,e) MAXI(gBy[o],e)
#else
#define NOTEBY(o,e) skip
#endif
#if defined(M_K)||defined(EARLY)
byte zf[2];             /* floor a leader last knew while it led         */
#endif
#ifdef M_H
bool mUnf[NE1];
#endif
#ifdef WIT
bool wLease, wAck, wAbort, wTake, wRest;
#endif

#ifdef TRACE
#define TR(s,a,b) printf(s,a,b)
#else
#define TR(s,a,b) skip
#endif
#define CAN(o)  (oAct[o]!=0 && oAct[o]>oFloor[o] && oLease[o]>0)
#if NO==2
#define I1 (!(CAN(0)&&CAN(1)))
#define OKE (oAct[0]<=sEpoch && oAct[1]<=sEpoch)
#else
#define I1 (!(CAN(0)&&CAN(1)) && !(CAN(0)&&CAN(2)) && !(CAN(1)&&CAN(2)))
#define OKE (oAct[0]<=sEpoch && oAct[1]<=sEpoch && oAct[2]<=sEpoch)
#endif
#define I6 (sFencing || oFloor[eOwner[sEpoch]]<sEpoch)
/* -DONLY=1|2|3 restricts checking to one invariant (used for the mutants) */
#if ONLY==1
#define CHECK assert(I1)
#elif ONLY==2 || ONLY==3
#define CHECK skip
#else
#define CHECK assert(I1); assert(OKE); assert(I6)
#endif

#ifdef M_E
#define ISLEADER(c) (cTerm[c]!=0)              /* txn not guarded by term */
#else
#define ISLEADER(c) (cTerm[c]==sTerm)
#endif

#define MAXI(v,x) if :: v<(x) -> v=(x) :: else fi

/* State-space normalisation (bisimulation-preserving): a closed epoch can never
 * become active again, an admitted write whose epoch is no longer active can
 * only be rejected, and a deposed leader's lease table is never read again.  */
#if defined(M_B1)||defined(M_B2)||defined(M_G)||defined(M_H)||defined(M_F)||defined(M_L)
#define NORM(o) skip
#else
#define NORM(o) if :: oAct[o]<=oFloor[o] -> oAct[o]=0 :: else fi; \
   if :: oAdm[o]!=0 && oAdm[o]!=oAct[o] -> oAdm[o]=NE1 :: else fi
#endif
#if defined(M_E)||defined(M_K)||defined(EARLY)
#define FORGET(c) skip
#else
#define FORGET(c) cTerm[c]=0; cl[(c)*NO]=0; cl[(c)*NO+1]=0; cl[(c)*NO+NO-1]=0; ca[c]=0
#endif

/* Owner: lease. */
#define A_REQ(o) \
 :: d_step{ oReq[o]<OL -> TR("@ owner %d: sends lease renewal request (life %d)\n",o,OL); oReq[o]=OL; gr[o]=0; gr[NO+o]=0; CHECK }

#if defined(M_K)||defined(EARLY)
#ifdef M_K
#define GRANTGUARD(c) (cTerm[c]!=0)
#else
#define GRANTGUARD(c) (lead[c]>0)
#endif
#define GFLOOR(c) UPZF(c)
#define UPZF(c) if :: cTerm[c]==sTerm -> zf[c]=(sFencing->sEpoch:sEpoch-1) :: else fi
#define GVAL(c) (zf[c]+1)
#else
#define GRANTGUARD(c) lead[c]
#define GFLOOR(c) skip
#define UPZF(c) skip
#define GVAL(c) ((sFencing->sEpoch:sEpoch-1)+1)
#endif
#ifdef REG
/* opening a session (new incarnation) is a term-guarded persist; a deposed
 * leader cannot open one and does not know sessions opened after it          */
#define KNOWS(c,o) (oReg[o]!=0 && oReg[o]<=cTerm[c])
#define A_REG(c,o) \
 :: d_step{ ISLEADER(c) && oReg[o]==0 -> TR("@ leader %d: PERSISTS session of owner %d\n",c,o); oReg[o]=sTerm; CHECK }
#define UNREG(o) oReg[o]=0
#else
#define KNOWS(c,o) true
#define A_REG(c,o)
#define UNREG(o) skip
#endif
#ifdef DURABLE
#define LOSEFLOOR(o) skip   /* fence floor survives a restart (fsync before ack) */
#else
#define LOSEFLOOR(o) oFloor[o]=0
#endif
#ifdef M_N
/* trap: grants that carry the exclusion are not counted in the lease table */
#define COUNTGRANT(c,o) if :: !(sFencing && eOwner[sEpoch]==o) -> cl[c*NO+o]=CL :: else fi
#elif defined(M_Q)
/* trap: a fresh grant SHORTENS the longer take-over wait                     */
#define COUNTGRANT(c,o) cl[c*NO+o]=CL
#else
#define COUNTGRANT(c,o) MAXI(cl[c*NO+o],CL)
#endif
#define A_GRANT(c,o) \
 :: d_step{ GRANTGUARD(c) && KNOWS(c,o) && oReq[o]>0 && gr[c*NO+o]==0 -> TR("@ leader %d: grants lease to owner %d\n",c,o); GFLOOR(c); gr[c*NO+o]=GVAL(c); COUNTGRANT(c,o); CHECK }

#ifdef M_C
#define NEWLEASE(o) oLease[o]=OL
#else
#define NEWLEASE(o) MAXI(oLease[o],oReq[o])
#endif
#ifdef M_G
#define APPLYFLOOR(c,o) skip
#else
#define APPLYFLOOR(c,o) MAXI(oFloor[o],gr[c*NO+o]-1)
#endif
#define A_RGRANT(c,o) \
 :: d_step{ gr[c*NO+o]>0 -> TR("@ owner %d: receives grant of leader %d (applies fence floor)\n",o,c); APPLYFLOOR(c,o); NEWLEASE(o); gr[c*NO+o]=0; NORM(o); CHECK }

/* Owner: control messages. */
#ifdef ONLY
#define ASCOM(e) skip
#else
#define ASCOM(e) assert(gCom[e])
#endif
#define A_RAISE(o,e) \
 :: d_step{ mFence[e] && eOwner[e]==o && oFloor[o]<e -> TR("@ owner %d: receives FENCE(epoch %d), stops admitting\n",o,e); oFloor[o]=e; NORM(o); CHECK }
#ifdef M_F
#define DRAINED(o) true
#else
#define DRAINED(o) (oAdm[o]==0)
#endif
#define A_ACKF(o,e) \
 :: d_step{ mFence[e] && !mAck[e] && eOwner[e]==o && oFloor[o]>=e && DRAINED(o) -> TR("@ owner %d: drained, acks FENCED(epoch %d)\n",o,e); mAck[e]=true; CHECK }
#ifdef M_B2
#define A_RACT(o,e) \
 :: d_step{ mAct[e] && eOwner[e]==o && oAct[o]!=e -> TR("@ owner %d: ACTIVATES epoch %d (no comparison)\n",o,e); oAct[o]=e; oFloor[o]=e-1; ASCOM(e); NOTEBY(o,e); MAXI(gMax,e); CHECK }
#else
#define A_RACT(o,e) \
 :: d_step{ mAct[e] && eOwner[e]==o && e>oAct[o] && e>oFloor[o] -> TR("@ owner %d: ACTIVATES epoch %d\n",o,e); oAct[o]=e; MAXI(oFloor[o],e-1); NORM(o); ASCOM(e); NOTEBY(o,e); MAXI(gMax,e); CHECK }
#endif
#ifdef DURABLE
#define VOLF(o) false
#else
#define VOLF(o) (oFloor[o]!=0)
#endif
#ifdef M_G
#define A_RESTART(o) /* cached map trusted: epoch kept, fence forgotten */ \
 :: d_step{ oFloor[o]!=0 || oLease[o]!=0 || oReq[o]!=0 || oAdm[o]!=0 -> TR("@ owner %d: crash+restart, keeps cached map epoch %d\n",o,oAct[o]); oFloor[o]=0; oLease[o]=0; oReq[o]=0; oAdm[o]=0; gr[o]=0; gr[NO+o]=0; CHECK }
#else
#define A_RESTART(o) \
 :: d_step{ oAct[o]!=0 || VOLF(o) || oLease[o]!=0 || oReq[o]!=0 || oAdm[o]!=0 -> TR("@ owner %d: crash+restart, volatile state lost %d\n",o,0); WREST; UNREG(o); oAct[o]=0; LOSEFLOOR(o); oLease[o]=0; oReq[o]=0; oAdm[o]=0; gr[o]=0; gr[NO+o]=0; CHECK }
#endif
#ifdef M_L
/* owner adopts a newer epoch from a client's request header */
#define A_ADOPT(o,e) \
 :: d_step{ e>oAct[o] && e>oFloor[o] && e<sNext -> TR("@ owner %d: adopts epoch %d from a client\n",o,e); oAct[o]=e; MAXI(gMax,e); assert(I1); assert(eOwner[e]==o && gCom[e]) }
#else
#define A_ADOPT(o,e)
#endif

/* Client writes. */
/* w<oAct: STALE_EPOCH reject; w>oAct: OWNER_BEHIND reject (both no-ops)   */
#ifdef M_B1
#define EPOCHOK(o,w) true
#define GATE(o) (CAN(o))
#else
#define EPOCHOK(o,w) (w==oAct[o])
#define GATE(o) (CAN(o) && oAdm[o]==oAct[o])
#endif
#define A_ADMIT(o,w) \
 :: d_step{ oAdm[o]==0 && CAN(o) && EPOCHOK(o,w) -> TR("@ owner %d: admits client write tagged epoch %d\n",o,w); oAdm[o]=w; CHECK }
#if ONLY==1
#define ACKED(o) skip
#elif ONLY==2
#define ACKED(o) assert(oAdm[o]>=gMax)
#elif ONLY==3   /* ack under an epoch older than one activated by ANOTHER owner */
#define ACKED(o) assert(oAdm[o]>=gBy[1-o])
#else
#define ACKED(o) assert(oAdm[o]>=gMax); assert(eOwner[oAdm[o]]==o); WACK
#endif
#ifdef M_F
#define A_ACKW(o) :: d_step{ oAdm[o]!=0 -> TR("@ owner %d: ACKS write tagged epoch %d (no gate)\n",o,oAdm[o]); ACKED(o); oAdm[o]=0; CHECK }
#else
#define A_ACKW(o) :: d_step{ oAdm[o]!=0 -> if :: GATE(o) -> TR("@ owner %d: ACKS write tagged epoch %d\n",o,oAdm[o]); ACKED(o) :: else fi; oAdm[o]=0; CHECK }
#endif

/* Leader. */
/* A hand-over begins: a wave, a way back (r is then the former donor), or one after the other.
 * step: P5 fence wave; from: Verifying; to: Fencing; needs: Warmed, Verified, Promoted, HoldOver
 * step: P5 fence wave; from: Committed; to: Fencing; needs: Warmed, Promoted, HoldOver
 * step: PU5 fence undo; from: Committed; to: Undoing; needs: UndoPossible
 * step: PU5 fence undo; from: Soaking; to: Undoing; needs: UndoPossible
 */
#define A_START(c,r) \
 :: d_step{ ISLEADER(c) && !sFencing && sNext<=NE && eOwner[sEpoch]!=r -> \
     TR("@ leader %d: PERSISTS stage FENCING, recipient owner %d\n",c,r); eOwner[sNext]=r; sNew=sNext; sNext++; sFencing=true; ca[c]=cl[c*NO+eOwner[sEpoch]]; UPZF(c); CHECK }
#define A_SFENCE(c) \
 :: d_step{ ISLEADER(c) && sFencing && !mFence[sEpoch] -> TR("@ leader %d: sends FENCE(epoch %d)\n",c,sEpoch); mFence[sEpoch]=true; CHECK }
/* guard: DonorsClosed = EVID */
#ifdef M_A
#define EVID(c) true
#else
#define EVID(c) (mAck[sEpoch] || ca[c]==0)
#endif
/* step: P6 commit wave; from: Fencing; to: Committed; needs: DonorsClosed, RecipientsReady
 * step: PU6 commit undo; from: Undoing; to: RolledBack; needs: DonorsClosed, RecipientsReady
 */
#define A_COMMIT(c) \
 :: d_step{ ISLEADER(c) && sFencing && EVID(c) -> TR("@ leader %d: PERSISTS COMMIT of epoch %d\n",c,sNew); WCOM(c); assert(sNew>sEpoch); sEpoch=sNew; gCom[sEpoch]=true; sFencing=false; sNew=0; ca[c]=0; UPZF(c); CHECK }
/* The donor goes on under a fresh epoch.
 * step: PA abort fencing; from: Fencing; to: Aborted; needs: none
 * step: PA retreat; from: Fencing; to: Committed; needs: none
 * step: PR retry first wave; from: Fencing; to: Warming; needs: none
 * step: PR retry wave; from: Fencing; to: Committed; needs: none
 * step: PA abandon undo; from: Undoing; to: Soaking; needs: none
 */
#ifdef M_H
#define A_ABORT(c) /* abort re-opens the same epoch */ \
 :: d_step{ ISLEADER(c) && sFencing -> TR("@ leader %d: PERSISTS ABORT, re-opens epoch %d\n",c,sEpoch); sFencing=false; sNew=0; ca[c]=0; mUnf[sEpoch]=true; mFence[sEpoch]=false; CHECK }
#define A_RUNF(o,e) \
 :: d_step{ mUnf[e] && eOwner[e]==o && oFloor[o]==e -> TR("@ owner %d: UNFENCE epoch %d\n",o,e); oFloor[o]=e-1; mUnf[e]=false; CHECK }
#else
#define A_ABORT(c) \
 :: d_step{ ISLEADER(c) && sFencing && sNext<=NE -> TR("@ leader %d: PERSISTS ABORT, donor gets epoch %d\n",c,sNext); WABO; eOwner[sNext]=eOwner[sEpoch]; sEpoch=sNext; gCom[sEpoch]=true; sNext++; sFencing=false; sNew=0; ca[c]=0; UPZF(c); CHECK }
#define A_RUNF(o,e)
#endif
/* What is durable is told. */
#ifdef M_I
#define A_SACT(c) /* notify before persist */ \
 :: d_step{ ISLEADER(c) && !sFencing && !mAct[sEpoch] -> TR("@ leader %d: sends ACTIVATE(epoch %d)\n",c,sEpoch); mAct[sEpoch]=true; CHECK } \
 :: d_step{ ISLEADER(c) && sFencing && EVID(c) && !mAct[sNew] -> TR("@ leader %d: sends ACTIVATE(epoch %d) BEFORE persisting\n",c,sNew); mAct[sNew]=true; CHECK }
#else
#define A_SACT(c) \
 :: d_step{ ISLEADER(c) && !sFencing && !mAct[sEpoch] -> TR("@ leader %d: sends ACTIVATE(epoch %d)\n",c,sEpoch); mAct[sEpoch]=true; CHECK }
#endif
#ifdef M_D
#define TAKEWAIT 0
#elif defined(EARLY) && !defined(M_O)
#define TAKEWAIT (CL+LV)
#else
#define TAKEWAIT CL
#endif
#if NO==2
#define SETCL(c) cl[c*NO]=TAKEWAIT; cl[c*NO+1]=TAKEWAIT
#else
#define SETCL(c) cl[c*NO]=TAKEWAIT; cl[c*NO+1]=TAKEWAIT; cl[c*NO+2]=TAKEWAIT
#endif
#ifdef EARLY
#define MAYTAKE(c) (lead[c]==0)
#else
#define MAYTAKE(c) (!lead[0] && !lead[1])
#endif
#define A_TAKE(c) \
 :: d_step{ MAYTAKE(c) && sTerm<MAXTERM -> TR("@ leader %d: takes over, term %d\n",c,sTerm+1); WTAK; FORGET(1-c); sTerm++; cTerm[c]=sTerm; lead[c]=LEADON; SETCL(c); ca[c]=(sFencing->TAKEWAIT:0); UPZF(c); CHECK }
#define A_LOSE(c) :: d_step{ lead[c] -> TR("@ leader %d: leadership lease lapses (own view) %d\n",c,0); lead[c]=0; CHECK }
#ifdef EARLY
#define NEEDREN(c) (lead[c]<LV)
#else
#define NEEDREN(c) (!lead[c])
#endif
#define A_RENEW(c) :: d_step{ NEEDREN(c) && cTerm[c]==sTerm -> TR("@ leader %d: renews leadership, term %d\n",c,sTerm); lead[c]=LEADON; CHECK }

/* Time. */
#define DEC(x) (x>0 -> x-1 : 0)
#ifdef EARLY
#define LTICK (lead[0]||lead[1])
#define LDEC lead[0]=DEC(lead[0]); lead[1]=DEC(lead[1])
#else
#define LTICK false
#define LDEC skip
#endif
#if NO==2
#define TICKABLE (oLease[0]||oLease[1]||oReq[0]||oReq[1]||cl[0]||cl[1]||cl[2]||cl[3]||ca[0]||ca[1]||LTICK)
#define DECALL oLease[0]=DEC(oLease[0]); oLease[1]=DEC(oLease[1]); oReq[0]=DEC(oReq[0]); oReq[1]=DEC(oReq[1]); \
   cl[0]=DEC(cl[0]); cl[1]=DEC(cl[1]); cl[2]=DEC(cl[2]); cl[3]=DEC(cl[3]); ca[0]=DEC(ca[0]); ca[1]=DEC(ca[1]); LDEC
#else
#define TICKABLE true
#define DECALL oLease[0]=DEC(oLease[0]); oLease[1]=DEC(oLease[1]); oLease[2]=DEC(oLease[2]); oReq[0]=DEC(oReq[0]); oReq[1]=DEC(oReq[1]); oReq[2]=DEC(oReq[2]); \
   cl[0]=DEC(cl[0]); cl[1]=DEC(cl[1]); cl[2]=DEC(cl[2]); cl[3]=DEC(cl[3]); cl[4]=DEC(cl[4]); cl[5]=DEC(cl[5]); ca[0]=DEC(ca[0]); ca[1]=DEC(ca[1]); LDEC
#endif
#define A_TICK :: d_step{ TICKABLE -> TR("@ clock: tick %d%d\n",0,0); DECALL; CHECK }

/* Witnesses. */
#ifdef WIT
#define WCOM(c) if :: mAck[sEpoch] -> wAck=true :: else -> wLease=true fi
#define WABO wAbort=true
#define WTAK wTake=true
#define WREST wRest=true
#if WIT==1   /* commit by ack, new owner acks a write */
#define WACK assert(!(wAck && gMax==2))
#elif WIT==2 /* commit by lease expiry after a takeover, new owner acks a write */
#define WACK assert(!(wLease && !wAck && wTake && gMax==2))
#elif WIT==3 /* abort after FENCING, donor acks at the bumped epoch */
#define WACK assert(!(wAbort && gMax==3))
#elif WIT==4 /* move there and back, two takeovers, a restart, write acked under epoch 4 */
#define WACK assert(!(gMax==4 && sTerm==3 && wRest))
#endif
#else
#define WCOM(c) skip
#define WABO skip
#define WTAK skip
#define WREST skip
#define WACK skip
#endif

#if NE==3
#define FORE(X,o) X(o,1) X(o,2) X(o,3)
#elif NE==4
#define FORE(X,o) X(o,1) X(o,2) X(o,3) X(o,4)
#elif NE==5
#define FORE(X,o) X(o,1) X(o,2) X(o,3) X(o,4) X(o,5)
#else
#define FORE(X,o) X(o,1) X(o,2) X(o,3) X(o,4) X(o,5) X(o,6)
#endif
#define OWNER(o) A_REQ(o) A_RGRANT(0,o) A_RGRANT(1,o) FORE(A_RAISE,o) FORE(A_ACKF,o) FORE(A_RACT,o) A_RESTART(o) \
   FORE(A_ADMIT,o) A_ACKW(o) FORE(A_RUNF,o) FORE(A_ADOPT,o)
#define LEADER0(c) A_REG(c,0) A_REG(c,1) A_GRANT(c,0) A_GRANT(c,1) A_START(c,0) A_START(c,1) A_SFENCE(c) A_COMMIT(c) A_ABORT(c) A_SACT(c) A_TAKE(c) A_LOSE(c) A_RENEW(c)
#if NO==2
#define LEADER(c) LEADER0(c)
#else
#define LEADER(c) LEADER0(c) A_REG(c,2) A_GRANT(c,2) A_START(c,2)
#endif

init {
  d_step { eOwner[1]=0; gCom[1]=true; cTerm[0]=1; lead[0]=LEADON }
  do
  OWNER(0)
  OWNER(1)
#if NO==3
  OWNER(2)
#endif
  LEADER(0)
  LEADER(1)
  A_TICK
  od
}
