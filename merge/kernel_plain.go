//go:build !(goexperiment.simd && amd64)

package merge

func kernels() []kernel { return []kernel{plain} }
