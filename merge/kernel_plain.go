//go:build !(goexperiment.simd && amd64)

package merge

func kernels() []kernel { return []kernel{plain} }

func decodeHalves(DType, []float32, []uint16) int { return 0 }

func encodeHalves(DType, []uint16, []float32) int { return 0 }
