//go:build race

package nodetest_test

// seeds is how many random histories are run; the race detector makes each ten times as dear.
const seeds = 3
