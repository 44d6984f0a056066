/* A range is split before a part of it moves, and maps are versions.
 *
 * Range R of owner 0 is cut into K, which stays, and M, which moves. The version of the cut (P2)
 * changes no owner and no epoch: both children inherit. Then M moves, by acknowledgement or by the
 * expiry of a lease, is kept under a fresh epoch when that is aborted, and may move back. An owner
 * installs any version that is newer than its own, at any time, or never: it may be fenced for M
 * while its map still knows R alone. (The real conductor waits for donors to have the version of the
 * cut before it fences; a donor that is restarted has none again. The model never waits.)
 *
 * Floors are intervals of hash space, not attributes of a range of some map: here a floor for the
 * space of K and one for that of M (core/ownership/owner_view.h). A grant carries the head's version,
 * and the floor of what is in Fencing if it is for the donor; its lease counts once that version is
 * installed, its floor at once. The server is one process that is restarted at any time (two of them
 * are the matter of fence.pml, twin incarnations of agent.pml). Writes are atomic in the owner.
 *
 * Time as in fence.pml: OL = LT+DRIFT ticks of lease from the renewal, CL = LT+SLACK of belief from
 * the grant.
 *
 * Invariants, after every step
 *   I1 at most one owner can accept a write for M
 *   I2 no owner can accept for M under an epoch below one that some owner could accept under before
 *   I5 epochs of M only grow, and versions name them for ever
 *   IK K stays writable all along: owner 0, whenever it has a lease and any map, accepts for K
 *      the epoch that R had, which is the one that a client of before the cut sends; no other does
 *
 * -DM_x leaves a rule out, -DWIT=n is a witness (README.md).
 */
#ifndef NV
#define NV 4
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
#define NV1 (NV+1)

/* The store. */
byte sV = 1;            /* head version                                  */
bool sFencing = false;
byte sTo;               /* recipient of what is in Fencing               */
byte sNew = 0;          /* epoch reserved by what is in Fencing          */
byte sNext = 2;         /* next never-used epoch                         */
bool vCut[NV1];         /* the version knows K and M                     */
byte vOwn[NV1];         /* who has M                                     */
byte vEp[NV1];          /* under which epoch                             */
byte vEpK[NV1];         /* epoch of K                                    */
/* The server's memory. */
byte cl[2];             /* belief in an owner's lease                    */
byte ca;                /* the donor's, as it was when Fencing began     */
bool mAck;              /* the donor's answer to the present fence       */
/* Owners. */
byte oMap[2];           /* installed version, 0 none                     */
byte oFM[2];            /* floor in the space of M                       */
byte oFK[2];            /* floor in the space of K                       */
byte oLease[2];
byte oReq[2];           /* what is left of the newest renewal's life     */
byte oGr[2];            /* a grant for it: 0 none, 2*version+floor       */
byte oWv[2];            /* a granted lease waits for this version        */
byte oWl[2];            /* and has so much left                          */
/* Ghost: the highest epoch under which anybody could accept for M. */
byte gMax = 0;

#ifdef TRACE
#define TR(s,a,b) printf(s,a,b)
#else
#define TR(s,a,b) skip
#endif
#define MAXI(v,x) if :: v<(x) -> v=(x) :: else fi
#define DEC(x) x=(x>0 -> x-1 : 0)
#define HEAD vEp[sV]
#define DONOR vOwn[sV]

/* Accepts for M; accepts for K, from a client that knows the epoch of R. Version 0 has epoch 0. */
#define CAN(o) (oLease[o]>0 && oMap[o]!=0 && vOwn[oMap[o]]==o && vEp[oMap[o]]>oFM[o])
#define CANK(o) (oLease[o]>0 && oMap[o]!=0 && o==0 && vEpK[oMap[o]]==1 && oFK[o]<1)
#define NOTE(o) if :: CAN(o) -> assert(vEp[oMap[o]]>=gMax); gMax=vEp[oMap[o]] :: else fi
#define IK (oLease[0]==0 || oMap[0]==0 || CANK(0))
#define CHECK assert(!(CAN(0)&&CAN(1))); assert(IK); NOTE(0); NOTE(1); WCHECK

/* Owner. */
#define A_REQ(o) \
 :: d_step{ oReq[o]<OL -> TR("@ owner %d: sends lease renewal request%d\n",o,0); oReq[o]=OL; oGr[o]=0; CHECK }
#ifdef M_VERSION
#define INSTALLED(o,v) true        /* the lease counts under an older map too             */
#else
#define INSTALLED(o,v) (oMap[o]>=(v))
#endif
#define LEASE(o,v) \
   if :: INSTALLED(o,v) -> MAXI(oLease[o],oReq[o]) :: else -> oWv[o]=(v); oWl[o]=oReq[o] fi

/* How a fence of M under epoch e closes at the owner. */
#ifdef M_EXACT
/* A floor is set on the range of that name, and there is none in a map of before the cut. */
#define CLOSE(o,e) if :: vCut[oMap[o]] && vEp[oMap[o]]<=e -> MAXI(oFM[o],e) :: else fi
#elif defined(M_WHOLE)
/* A floor closes the range of the owner's map that has M in it. */
#define CLOSE(o,e) if :: vEp[oMap[o]]<=e -> MAXI(oFM[o],e) :: else fi; \
   if :: !vCut[oMap[o]] -> MAXI(oFK[o],e) :: else fi
#else
#define CLOSE(o,e) if :: vEp[oMap[o]]<=e -> MAXI(oFM[o],e) :: else fi
#endif
/* What becomes of floors when version v replaces an older one. */
#ifdef M_CHILD
/* The children of a cut begin without their parent's floor. */
#define INHERIT(o,v) if :: vEp[v]>oFM[o] || (vCut[v] && !vCut[oMap[o]]) -> oFM[o]=0 :: else fi
#elif defined(M_FORGET)
/* A floor is forgotten under a map that it still refuses something of. */
#define INHERIT(o,v) if :: vEp[v]>=oFM[o] -> oFM[o]=0 :: else fi
#else
#define INHERIT(o,v) if :: vEp[v]>oFM[o] -> oFM[o]=0 :: else fi
#endif
#define A_RGRANT(o) \
 :: d_step{ oGr[o]!=0 -> TR("@ owner %d: receives a grant for version %d\n",o,oGr[o]/2); \
     if :: oGr[o]%2==1 -> CLOSE(o,vEp[oGr[o]/2]) :: else fi; LEASE(o,oGr[o]/2); oGr[o]=0; CHECK }
#define A_MAP(o,v) \
 :: d_step{ v<=sV && oMap[o]<v -> TR("@ owner %d: installs version %d\n",o,v); INHERIT(o,v); oMap[o]=v; \
     if :: oWv[o]!=0 && oWv[o]<=v -> MAXI(oLease[o],oWl[o]); oWv[o]=0; oWl[o]=0 :: else fi; CHECK }
#define A_FENCE(o) \
 :: d_step{ sFencing && DONOR==o && !mAck -> TR("@ owner %d: is fenced for M up to epoch %d, acks\n",o,HEAD); CLOSE(o,HEAD); mAck=true; CHECK }
#define A_RESTART(o) \
 :: d_step{ oMap[o]!=0 || oFM[o]!=0 || oLease[o]!=0 || oReq[o]!=0 -> TR("@ owner %d: crash+restart%d\n",o,0); \
     oMap[o]=0; oFM[o]=0; oFK[o]=0; oLease[o]=0; oReq[o]=0; oGr[o]=0; oWv[o]=0; oWl[o]=0; CHECK }

/* Server. */
#define A_GRANT(o) \
 :: d_step{ oReq[o]>0 && oGr[o]==0 -> TR("@ server: grants a lease to owner %d for version %d\n",o,sV); \
     MAXI(cl[o],CL); oGr[o]=2*sV+((sFencing && DONOR==o) -> 1 : 0); CHECK }
#define NEXT(cut,own,ep,epk) vCut[sV+1]=cut; vOwn[sV+1]=own; vEp[sV+1]=ep; vEpK[sV+1]=epk; sV++
#ifdef M_CUTEPOCH
#define CUTEPOCH(old) sNext; sNext++           /* children of a cut get an epoch of their own   */
#else
#define CUTEPOCH(old) old
#endif
/* step: P2 prepare; from: Planned; to: Warming; needs: PlanChecked
 * left out: PlanChecked. It only restricts when the step is taken.
 */
#define A_PREPARE \
 :: d_step{ !sFencing && !vCut[sV] && sV<NV -> TR("@ server: PERSISTS version %d: R is cut into K and M%d\n",sV+1,0); \
     NEXT(true,vOwn[sV],vEp[sV],CUTEPOCH(vEpK[sV])); CHECK }
/* As in fence.pml: the wave's fence, its commit, its abort under a fresh epoch. */
#define A_START(r) \
 :: d_step{ !sFencing && vCut[sV] && sV<NV && DONOR!=r -> TR("@ server: PERSISTS stage Fencing, M goes to owner %d under epoch %d\n",r,sNext); \
     sFencing=true; sTo=r; sNew=sNext; sNext++; ca=cl[DONOR]; mAck=false; CHECK }
#define EVID (mAck || ca==0)
#ifdef M_BOTH
#define KEPT sNew                              /* the commit gives all of R the new epoch       */
#else
#define KEPT vEpK[sV]
#endif
#define A_COMMIT \
 :: d_step{ sFencing && EVID -> TR("@ server: PERSISTS COMMIT, version %d, epoch %d\n",sV+1,sNew); \
     assert(sNew>HEAD); NEXT(true,sTo,sNew,KEPT); sFencing=false; sTo=0; sNew=0; ca=0; mAck=false; CHECK }
#define A_ABORT \
 :: d_step{ sFencing -> TR("@ server: PERSISTS ABORT, version %d, epoch %d\n",sV+1,sNext); \
     NEXT(true,DONOR,sNext,vEpK[sV]); sNext++; sFencing=false; sTo=0; sNew=0; ca=0; mAck=false; CHECK }
#define A_SRESTART \
 :: d_step{ cl[0]<CL || cl[1]<CL || (sFencing && ca<CL) -> TR("@ server: crash+restart%d%d\n",0,0); \
     cl[0]=CL; cl[1]=CL; ca=(sFencing -> CL : 0); CHECK }

/* Time. A request whose life is over can buy no lease: its grant is forgotten. */
#define LATE(o) if :: oReq[o]==0 -> oGr[o]=0 :: else fi
#define WAITED(o) if :: oWl[o]==0 -> oWv[o]=0 :: else fi
#define A_TICK \
 :: d_step{ oLease[0]||oLease[1]||oReq[0]||oReq[1]||cl[0]||cl[1]||ca -> TR("@ clock: tick%d%d\n",0,0); \
     DEC(oLease[0]); DEC(oLease[1]); DEC(oReq[0]); DEC(oReq[1]); DEC(oWl[0]); DEC(oWl[1]); DEC(cl[0]); DEC(cl[1]); DEC(ca); \
     LATE(0); LATE(1); WAITED(0); WAITED(1); CHECK }

/* Witnesses. */
#if WIT==1   /* a donor that does not know the cut is closed for M, and goes on with K */
#define WCHECK assert(!(mAck && DONOR==0 && oMap[0]==1 && oFM[0]==1 && CANK(0)))
#elif WIT==2 /* M is written at owner 1 while owner 0, which knows R alone, goes on with K */
#define WCHECK assert(!(CAN(1) && oMap[0]==1 && CANK(0)))
#else
#define WCHECK skip
#endif

#if NV==4
#define EACH(X,o) X(o,1) X(o,2) X(o,3) X(o,4)
#else
#define EACH(X,o) X(o,1) X(o,2) X(o,3) X(o,4) X(o,5)
#endif
#define OWNER(o) A_REQ(o) A_RGRANT(o) EACH(A_MAP,o) A_FENCE(o) A_RESTART(o) A_GRANT(o) A_START(o)

init {
  d_step { vOwn[1]=0; vEp[1]=1; vEpK[1]=1 }
  do
  OWNER(0)
  OWNER(1)
  A_PREPARE
  A_COMMIT
  A_ABORT
  A_SRESTART
  A_TICK
  od
}
