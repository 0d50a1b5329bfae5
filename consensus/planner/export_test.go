package planner

// Capped is capped.
func Capped(weights []uint32, ppm uint32) []uint32 { return capped(weights, ppm) }
