package runjob

import "testing"

// TestWordsOfAnEnd: an exit code that a signal leaves is reported as such, and a module that Python lacks with a remedy.
func TestWordsOfAnEnd(t *testing.T) {
	for code, want := range map[int]string{
		0: "", 1: "", 127: "", 128: "", 139: "as of SIGSEGV", 143: "as of SIGTERM", 255: "", -1: "",
		137: "as of SIGKILL: somebody has killed it, or its host for want of memory",
	} {
		if got := signalWords(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	if got := withRemedy("import torch | ModuleNotFoundError: No module named 'torch.nn'", "name another"); got != "ModuleNotFoundError: No module named 'torch.nn': name another" {
		t.Error(got)
	}
	if got := withRemedy("broken", "name another"); got != "broken" {
		t.Error(got)
	}
}
