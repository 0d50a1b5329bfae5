// Package session is the engine of a Swarm Learning node: it keeps one ML program's session in step with its contract.
//
// Three parties meet here, and none of them is in charge of another: the program (through the bridge: Open, Sync, Report,
// Close), the contract (a stream of committed views from an SN) and the exchange with the other participants. The engine
// is a reconciler: whenever one of the three has news it compares what is with what should be and does the next step:
// adopt a committed model, start or abandon an attempt, answer the program, report to the leader. It remembers no event;
// a lost message or a new leader is only a later comparison.
//
// The rules that keep the models equal:
//
//   - nothing is handed to the program before its round is committed;
//   - a committed model that this node did not merge itself is fetched from a node that did, and checked against the
//     committed digest, before the program sees it or the node contributes again;
//   - a session that an SN does not show is opened anew there, which does no harm if it is open: what one SN says is no proof that
//     the swarm has it;
//   - the weights that a program offered are dropped if the swarm went on without them.
package session
