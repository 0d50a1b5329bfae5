// Package logs carries logs from hosts to operators, past SNs that can't read them. What a program prints may be data.
//
// An operator makes a key for the request and signs both: which log, of which node, until when. The request reaches the node in the answer to
// a heartbeat, and the node believes no SN about it: it proves who has signed with its own trust bundle and asks its owner's policy whether
// logs may go there. Then it seals what it hands out for the operator's key (HPKE, with the hybrid KEM X-Wing), and signs with its SVID that
// this key is its answer. SNs pass on what is sealed, a few chunks at a time; they can hold it back, and do nothing else to it that the
// operator would not notice.
//
// All of it is repeated until it is seen to have arrived: the operator's call until the last chunk was read, chunks until the operator has
// them. So a lost answer or a new leader costs a moment.
//
// A host that an operator can dial hands a log out directly, on a connection on which both have shown their SVIDs: see Host.Direct.
package logs
