// Package dockerfile reads the steps by which an image is built, before any engine does. It says which images they start from, and writes
// them anew in a form in which these are fixed: a builder has nothing to look up by name. It is pure.
//
// What engines read differently is refused, and so is what the engine itself would do outside the build: fetching a URL with ADD.
package dockerfile
