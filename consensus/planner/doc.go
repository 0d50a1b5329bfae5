// Package planner holds the duties of the SN that leads the raft group: it watches who is alive, gathers what sessions
// report, and decides when a round is planned, repeated, committed or given up.
//
// What it knows beside the replicated state (reports, heartbeats, [Memory]) lives in the leader's memory only. Reports are
// repeated every second by those who send them, so a new leader learns them anew; what it can't learn anew (back-off,
// who sits out, the loss of earlier models) begins afresh with it and costs at most a few attempts.
//
// [Decide] is pure: it gets the time with its inputs. [Planner] runs it and proposes what it says. Parts with a memory of their own
// decide: adoption and recovery from which model training goes on, opening whether a round begins, attempt whether it is committed
// or tried again, and blame without whom. They ask facts and lineup, and give answer what they came to.
package planner
