/* An engine and the agents beside it: each is a process of its own and may be restarted alone.
 *
 * The engine (the Redis module) holds the installed map, the lease and the stamp that it is counted
 * from, the floor, its incarnation and the generation of its agent. The agent only relays: WR.ATTACH,
 * WR.MAP, WR.RENEW, WR.GRANT, WR.FENCE. Node 0 has two engine processes, 0 and 1: the second one is a
 * replacement that was started while nobody knows whether the first one is still alive. There are two
 * agents; agent 1 may attach to either engine, so that one of them can be driven by two agents, of
 * which one is a zombie. Node 1 is the other party of each move: it never restarts, always has a
 * lease, and gives a range up by acknowledgement alone.
 *
 * The server is one process that is restarted at any time (two of them are the matter of fence.pml).
 * It persists the session of node 0, that is its last incarnation and whether that one still waits
 * for its predecessor's lease to be over (server/sessions/session_table.h). Versions of the map are
 * named by the epoch that they gave the range. A grant carries the head's version, and the floor if
 * node 0 is the donor of what is in Fencing; its lease counts once that version is installed, its
 * floor at once. Writes are atomic in the engine.
 *
 * Time as in fence.pml: OL = LT+DRIFT ticks of lease from the stamp, CL = LT+SLACK of belief from
 * the grant.
 *
 * Invariants, after every step
 *   I1 at most one engine, of both nodes together, can accept a write
 *   I2 no engine can accept under an epoch below one that some engine could accept under before
 *   I5 the stored epoch only grows
 *
 * -DM_x leaves a rule out, -DWIT=n is a witness (README.md).
 */
#ifndef NE
#define NE 3
#endif
#ifndef LT
#define LT 1
#endif
#ifndef DRIFT
#define DRIFT 0
#endif
#ifndef SLACK
#define SLACK 0
#endif
#define OL (LT+DRIFT)
#define CL (LT+SLACK)
#define NE1 (NE+1)

#define NONE 2   /* no agent                                             */
#define DEAD 3   /* an incarnation that is over                          */
#define NOBODY 4 /* no session was ever persisted                        */

/* The store. */
byte sEpoch = 1;        /* of the head version                           */
byte sNew = 0;          /* reserved by what is in Fencing                */
byte sNext = 2;
bool sFencing = false;
byte vNode[NE1];        /* node that the version gives the range to      */
bool vCom[NE1];         /* the version exists                            */
byte sInc = NOBODY;     /* incarnation of node 0's last session          */
bool sWait = false;     /* it had a predecessor and was granted nothing  */
/* The server's memory. */
byte cl;                /* belief in a lease of node 0                   */
byte gf;                /* time until the session may be granted a lease */
byte ca;                /* the belief as it was when Fencing began       */
bool ack;               /* the donor has acknowledged the fence          */
byte strm = NONE;       /* agent that has node 0's present stream        */
/* Engines of node 0. */
byte eMap[2];           /* installed version, 0 none                     */
byte eFloor[2];
byte eLease[2];
byte eReq[2];           /* what is left of the newest stamp's life       */
byte eWv[2];            /* a granted lease waits for this version        */
byte eWl[2];            /* and has so much left                          */
/* Agents. */
byte aEng[2];           /* engine that it attached to last               */
bool aDead[2];          /* that incarnation of the engine is over        */
bool aGen[2];           /* its generation is the engine's present one    */
bool aReq[2];           /* it has asked for a grant                      */
byte aGr[2];            /* the grant it has got: 0 none, 2*version+floor */
bool aAck[2];           /* its engine has answered the present fence     */
/* Node 1. */
byte rMap;
byte rFloor;
/* Ghost: the highest epoch under which anybody could accept. */
byte gMax = 0;
#ifdef WIT
bool wOther, wLease;
#endif

#ifdef TRACE
#define TR(s,a,b) printf(s,a,b)
#else
#define TR(s,a,b) skip
#endif
#define MAXI(v,x) if :: v<(x) -> v=(x) :: else fi
#define DEC(x) x=(x>0 -> x-1 : 0)

#define CAN(e) (eLease[e]>0 && eMap[e]>eFloor[e] && vNode[eMap[e]]==0)
#define CANR (rMap>rFloor && vNode[rMap]==1)
#define NOTE(can,epoch) if :: can -> assert(epoch>=gMax); gMax=epoch :: else fi
#define CHECK assert(!(CAN(0)&&CAN(1)) && !(CAN(0)&&CANR) && !(CAN(1)&&CANR)); \
   NOTE(CAN(0),eMap[0]); NOTE(CAN(1),eMap[1]); NOTE(CANR,rMap); WCHECK

#define INC(a) (aDead[a] -> DEAD : aEng[a])

/* Agent: attaches, relays. */
/* What an agent holds for an incarnation or generation that is over is refused, so it is dropped. */
#ifdef M_GENERATION
#define OBEYS(a) true
#define VOID(a) skip
#else
#define OBEYS(a) aGen[a]
#define VOID(a) aReq[a]=false; aGr[a]=0
#endif
#define A_ATTACH(a,e) \
 :: d_step{ !aGen[a] || aEng[a]!=e -> TR("@ agent %d: WR.ATTACH to engine %d\n",a,e); \
     if :: aEng[a]!=e || aDead[a] -> aAck[a]=false :: else fi; \
     if :: aEng[1-a]==e && aGen[1-a] -> aGen[1-a]=false; VOID(1-a) :: else fi; \
     aEng[a]=e; aDead[a]=false; aGen[a]=true; aReq[a]=false; aGr[a]=0; \
     if :: strm==a -> strm=NONE :: else fi; CHECK }
#define A_HELLO(a) \
 :: d_step{ strm!=a || sInc!=INC(a) -> TR("@ server: P0, session of agent %d, incarnation %d\n",a,INC(a)); \
     if :: sInc!=NOBODY && sInc!=INC(a) -> MAXI(gf,cl); sWait=true; \
           if :: vNode[sEpoch]==0 -> ack=false :: else fi \
        :: else fi; \
     sInc=INC(a); strm=a; CHECK }
#ifdef M_MEMORY
#define VOIDGRANT(a) skip          /* the agent keeps the grant, and names the newest seq */
#define USED(a) skip
#elif defined(M_SEQ)
#define VOIDGRANT(a) skip          /* the engine takes a grant of an earlier renewal      */
#define USED(a) aGr[a]=0
#else
#define VOIDGRANT(a) aGr[a]=0
#define USED(a) aGr[a]=0
#endif
#define A_RENEW(a) \
 :: d_step{ aGen[a] && (eReq[aEng[a]]<OL || !aReq[a]) -> TR("@ agent %d: WR.RENEW at engine %d\n",a,aEng[a]); \
     eReq[aEng[a]]=OL; aReq[a]=true; VOIDGRANT(a); CHECK }
#ifdef M_RECEIPT
#define LIFE(e) OL                 /* counted from the grant's arrival, not from the stamp */
#define INTIME(e) true
#else
#define LIFE(e) eReq[e]
#define INTIME(e) (eReq[e]>0)      /* else the lease would be over already                 */
#endif
#ifdef M_VERSION
#define INSTALLED(e,v) true        /* the lease counts under an older map too              */
#else
#define INSTALLED(e,v) (eMap[e]>=(v))
#endif
#define LEASE(e,v) \
   if :: INSTALLED(e,v) -> MAXI(eLease[e],LIFE(e)) :: else -> eWv[e]=(v); eWl[e]=LIFE(e) fi
#ifdef M_FLOOR
#define FLOORS(e,g) skip           /* the floor in the grant is ignored                    */
#else
#define FLOORS(e,g) if :: g%2==1 -> MAXI(eFloor[e],g/2) :: else fi
#endif
#define A_APPLY(a) \
 :: d_step{ OBEYS(a) && aGr[a]!=0 && INTIME(aEng[a]) -> TR("@ agent %d: WR.GRANT at engine %d\n",a,aEng[a]); \
     FLOORS(aEng[a],aGr[a]); LEASE(aEng[a],aGr[a]/2); USED(a); CHECK }
#define A_MAP(a,v) \
 :: d_step{ OBEYS(a) && vCom[v] && eMap[aEng[a]]<v -> TR("@ agent %d: WR.MAP, version of epoch %d\n",a,v); \
     eMap[aEng[a]]=v; \
     if :: eFloor[aEng[a]]<v -> eFloor[aEng[a]]=0 :: else fi; \
     if :: eWv[aEng[a]]!=0 && eWv[aEng[a]]<=v -> MAXI(eLease[aEng[a]],eWl[aEng[a]]); eWv[aEng[a]]=0; eWl[aEng[a]]=0 \
        :: else fi; CHECK }
#ifdef M_AGENTACK
#define CLOSE(e) skip              /* the agent answers without asking its engine          */
#else
#define CLOSE(e) if :: eMap[e]<=sEpoch -> MAXI(eFloor[e],sEpoch) :: else fi
#endif
#define A_FENCE(a) \
 :: d_step{ OBEYS(a) && sFencing && vNode[sEpoch]==0 && !aAck[a] -> TR("@ agent %d: WR.FENCE of epoch %d\n",a,sEpoch); \
     CLOSE(aEng[a]); aAck[a]=true; CHECK }
/* It knows nothing any more, as if it had attached to nobody. */
#define A_ARESTART(a) \
 :: d_step{ !aDead[a] || aAck[a] -> TR("@ agent %d: crash%d\n",a,0); \
     aDead[a]=true; aGen[a]=false; aReq[a]=false; aGr[a]=0; aAck[a]=false; \
     if :: strm==a -> strm=NONE :: else fi; CHECK }

/* Engine. */
#define ORPHAN(a,e) if :: aEng[a]==e -> aGen[a]=false; aDead[a]=true; VOID(a) :: else fi
#define A_ERESTART(e) \
 :: d_step{ eMap[e]!=0 || eFloor[e]!=0 || eLease[e]!=0 || eReq[e]!=0 || eWv[e]!=0 || (aEng[0]==e && !aDead[0]) || (aEng[1]==e && !aDead[1]) -> \
     TR("@ engine %d: crash+restart%d\n",e,0); \
     eMap[e]=0; eFloor[e]=0; eLease[e]=0; eReq[e]=0; eWv[e]=0; eWl[e]=0; \
     ORPHAN(0,e); ORPHAN(1,e); if :: sInc==e -> sInc=DEAD :: else fi; CHECK }

/* Node 1. */
#define A_RMAP(v) :: d_step{ vCom[v] && rMap<v -> TR("@ node 1: installs the version of epoch %d%d\n",v,0); rMap=v; CHECK }
#define A_RFENCE \
 :: d_step{ sFencing && vNode[sEpoch]==1 && !ack -> TR("@ node 1: acks FENCED(%d)%d\n",sEpoch,0); MAXI(rFloor,sEpoch); ack=true; CHECK }

/* Server. */
#ifdef M_ATONCE
#define MAYGRANT true              /* a new incarnation does not wait                      */
#else
#define MAYGRANT (gf==0)
#endif
#define A_GRANT(a) \
 :: d_step{ strm==a && aReq[a] && sInc==INC(a) && MAYGRANT -> TR("@ server: grants a lease to agent %d%d\n",a,0); \
     MAXI(cl,CL); aReq[a]=false; aGr[a]=2*sEpoch+((sFencing && vNode[sEpoch]==0) -> 1 : 0); CHECK }
#define A_SETTLE \
 :: d_step{ sWait && gf==0 && strm!=NONE -> TR("@ server: persists that node 0 waits no more%d%d\n",0,0); sWait=false; CHECK }
#ifdef M_WAITINGACK
#define COUNTS true                /* the answer of one that still waits is evidence       */
#else
#define COUNTS (gf==0)
#endif
#ifdef M_ANYACK
#define SPEAKS(a) true             /* whoever says it                                      */
#else
#define SPEAKS(a) (strm==a && sInc==INC(a))
#endif
#define A_REPORT(a) \
 :: d_step{ SPEAKS(a) && COUNTS && sFencing && vNode[sEpoch]==0 && aAck[a] && !ack -> \
     TR("@ server: takes the ack of agent %d for epoch %d\n",a,sEpoch); ack=true; CHECK }
#define A_START \
 :: d_step{ !sFencing && sNext<=NE -> TR("@ server: PERSISTS stage Fencing of epoch %d, reserves %d\n",sEpoch,sNext); \
     sNew=sNext; sNext++; sFencing=true; vNode[sNew]=1-vNode[sEpoch]; ack=false; \
     ca=(vNode[sEpoch]==0 -> cl : 0); CHECK }
#define EVID (ack || (vNode[sEpoch]==0 && ca==0))
#define A_COMMIT \
 :: d_step{ sFencing && EVID -> TR("@ server: PERSISTS COMMIT of epoch %d (ack %d)\n",sNew,ack); WCOM; \
     assert(sNew>sEpoch); sEpoch=sNew; vCom[sEpoch]=true; sFencing=false; sNew=0; ca=0; ack=false; aAck[0]=false; aAck[1]=false; CHECK }
#define A_ABORT \
 :: d_step{ sFencing && sNext<=NE -> TR("@ server: PERSISTS ABORT, node %d goes on under epoch %d\n",vNode[sEpoch],sNext); \
     vNode[sNext]=vNode[sEpoch]; sEpoch=sNext; vCom[sEpoch]=true; sNext++; sFencing=false; sNew=0; ca=0; ack=false; aAck[0]=false; aAck[1]=false; CHECK }
#ifdef M_NOP0
#define LOSTSESSION sInc=NOBODY; sWait=false  /* the session was in memory only            */
#elif defined(M_NOWAIT)
#define LOSTSESSION sWait=false               /* that it waits was in memory only          */
#else
#define LOSTSESSION skip
#endif
#ifdef M_RESTART
#define BELIEF 0                   /* leases of before the restart are forgotten           */
#else
#define BELIEF CL
#endif
#define A_SRESTART \
 :: d_step{ strm!=NONE || cl<CL || ack || (sWait && gf<CL) -> TR("@ server: crash+restart%d%d\n",0,0); \
     LOSTSESSION; strm=NONE; ack=false; cl=BELIEF; gf=(sWait -> BELIEF : 0); \
     ca=((sFencing && vNode[sEpoch]==0) -> BELIEF : 0); aReq[0]=false; aReq[1]=false; CHECK }

/* Time. A request whose life is over can buy no lease: it and its grant are forgotten. */
#if defined(M_MEMORY)||defined(M_SEQ)||defined(M_GENERATION)||defined(M_RECEIPT)
#define LATE(a) skip
#else
#define LATE(a) if :: eReq[aEng[a]]==0 -> aReq[a]=false; aGr[a]=0 :: else fi
#endif
#define WAITED(e) if :: eWl[e]==0 -> eWv[e]=0 :: else fi
#define A_TICK \
 :: d_step{ eLease[0]||eLease[1]||eReq[0]||eReq[1]||cl||gf||ca -> TR("@ clock: tick%d%d\n",0,0); \
     DEC(eLease[0]); DEC(eLease[1]); DEC(eReq[0]); DEC(eReq[1]); DEC(eWl[0]); DEC(eWl[1]); DEC(cl); DEC(gf); DEC(ca); \
     LATE(0); LATE(1); WAITED(0); WAITED(1); CHECK }

/* Witnesses. */
#ifdef WIT
#define WCOM if :: vNode[sEpoch]==0 && ack && strm==1 && aEng[1]==0 -> wOther=true :: vNode[sEpoch]==0 && !ack -> wLease=true :: else fi
#if WIT==1   /* the fence was answered through the second agent of engine 0, node 1 accepts */
#define WCHECK assert(!(CANR && wOther))
#elif WIT==2 /* commit on the expiry of a lease, node 1 accepts */
#define WCHECK assert(!(CANR && wLease))
#elif WIT==3 /* the range is back at node 0, in the replacement; the first engine has its old map */
#define WCHECK assert(!(CAN(1) && eMap[1]==3 && eMap[0]==1 && wLease))
#endif
#else
#define WCOM skip
#define WCHECK skip
#endif

#if NE==3
#define EACH(X,a) X(a,1) X(a,2) X(a,3)
#define EACHR A_RMAP(1) A_RMAP(2) A_RMAP(3)
#else
#define EACH(X,a) X(a,1) X(a,2) X(a,3) X(a,4)
#define EACHR A_RMAP(1) A_RMAP(2) A_RMAP(3) A_RMAP(4)
#endif
#define AGENT(a) A_HELLO(a) A_RENEW(a) A_APPLY(a) EACH(A_MAP,a) A_FENCE(a) A_ARESTART(a) A_GRANT(a) A_REPORT(a)

/* -DAGENTS=2: both at one engine. -DENGINES=2: an engine each. Neither: all of it. */
#if defined(AGENTS)
#define PARTS A_ATTACH(0,0) A_ATTACH(1,0) A_ERESTART(0)
#elif defined(ENGINES)
#define PARTS A_ATTACH(0,0) A_ATTACH(1,1) A_ERESTART(0) A_ERESTART(1)
#else
#define PARTS A_ATTACH(0,0) A_ATTACH(1,0) A_ATTACH(1,1) A_ERESTART(0) A_ERESTART(1)
#endif
#ifdef AGENTS
#define SECOND 0
#else
#define SECOND 1
#endif

init {
  d_step { vNode[1]=0; vCom[1]=true; aEng[1]=SECOND; aDead[0]=true; aDead[1]=true }
  do
  PARTS
  AGENT(0)
  AGENT(1)
  EACHR
  A_RFENCE
  A_SETTLE
  A_START
  A_COMMIT
  A_ABORT
  A_SRESTART
  A_TICK
  od
}
