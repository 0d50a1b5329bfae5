package address

import (
	"strings"
	"testing"
)

func TestCheckHost(t *testing.T) {
	for _, good := range []string{"sn1", "sn-1.example.org", "my_sn", "SN1.", "10.0.0.1", "::1", "2001:db8::1", "1and1", "10", strings.Repeat("a", 63) + ".b"} {
		if err := CheckHost("sn-ip", good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", " ", "sn 1", "sn1:30304", "http://sn1", "[::1]", "10.0.0.300", "10.0.0", "-sn1", "sn1-", "a..b", ".", "sn1/x", "s\n", "::1%",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a",
	} {
		if err := CheckHost("sn-ip", bad); err == nil || !strings.HasPrefix(err.Error(), "--sn-ip ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestToward(t *testing.T) {
	for to, want := range map[string]string{"127.0.0.9:1": "127.0.0.1", "[::1]:1": "::1"} {
		if got, err := Toward(t.Context(), to); got != want && (err == nil || want != "::1") { // a host may have no IPv6
			t.Errorf("%s: %s, %v", to, got, err)
		}
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:x", ""} {
		if got, err := Toward(t.Context(), bad); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

func TestFileServer(t *testing.T) {
	for given, want := range map[string]string{
		"sn1": "sn1:30305", "sn1:7": "sn1:7", "::1": "[::1]:30305", "[::1]": "[::1]:30305", "[::1]:7": "[::1]:7", "10.0.0.1": "10.0.0.1:30305",
		"": "", "sn1:": "", "sn1:x": "", "sn1:0": "", "sn1:70000": "", "s n": "", "10.0.0.300:7": "", "http://sn1": "",
	} {
		got, err := FileServer(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
}
