//go:build !race

package nodetest_test

// seeds is how many random histories are run.
const seeds = 20
