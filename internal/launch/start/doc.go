// Package start is what SNs, SLs, SWOPs, SPIRE servers and SWCI are started with: each option that a user can give as a field, and the container in
// which such a component runs. Its callers need no command line: swarmd and swarmctl read theirs into these types with Read.
package start
