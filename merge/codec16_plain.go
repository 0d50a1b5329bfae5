//go:build !(goexperiment.simd && amd64)

package merge

// Without vectors the loops of codec16.go do everything.

func subVectors(DType, []byte, []float32, []float32) (at int, carry uint32) { return 0, 0 }

func addVectors(DType, []float32, []byte) (at int, carry uint32) { return 0, 0 }
