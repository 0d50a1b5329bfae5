package nodetest

import "fmt"

// Say has the daemon of a node write a line into its log.
func (s *Swarm) Say(name, line string) { fmt.Fprintln(s.ids[name].log, line) }
