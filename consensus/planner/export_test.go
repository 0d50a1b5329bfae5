package planner

// Connected is connected with links given as pairs, for tests.
func Connected(nodes []string, broken [][2]string) []string {
	var failures []failure
	for _, b := range broken {
		failures = append(failures, failure{node: b[0], blamed: b[1]})
	}
	return connected(nodes, failures)
}

// Capped is capped.
func Capped(weights []uint32, ppm uint32) []uint32 { return capped(weights, ppm) }
