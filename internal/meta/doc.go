// Package meta holds the repository's own rules as tests: who may import whom, what is pure, how large a file may grow,
// what must be documented. The linter checks what fits one file; what needs the whole tree is here.
//
// An exception is a line in exceptions.txt with its reason. A line that is no longer needed fails the test, and so does
// a rule about a package that no longer exists: rules that nobody breaks and nothing meets would only pretend to hold.
package meta
