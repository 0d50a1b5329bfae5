// Package start is what SNs, SLs and SPIRE servers are started with: each option that a user can give as a field, and the container in
// which such a component runs. Its callers need no command line: cmd/swarmd reads its own into these types with Read.
package start
