package logpack_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/logpack"
)

// TestSamples holds that of files of many kinds no secret is left, and that what surrounds them is: secrets have the word hunter2.
func TestSamples(t *testing.T) {
	samples, err := filepath.Glob("testdata/samples/*")
	if err != nil || len(samples) < 8 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for _, file := range samples {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := string(logpack.Redact(in))
		if i := strings.Index(strings.ToLower(out), "hunter2"); i >= 0 {
			t.Errorf("%s: a secret is left: …%s", file, out[max(0, i-60):min(len(out), i+20)])
		}
		for _, kept := range []string{"kept1", "kept2", "kept3"} {
			if !strings.Contains(out, kept) {
				t.Errorf("%s: %s is not left in\n%s", file, kept, out)
			}
		}
		if filepath.Ext(file) == ".json" && !json.Valid([]byte(out)) {
			t.Errorf("%s is no JSON any more:\n%s", file, out)
		}
		if a, b := strings.Count(string(in), "\n"), strings.Count(out, "\n"); a != b {
			t.Errorf("%s has %d lines, had %d", file, b, a)
		}
	}
}

// TestRedactDocument holds that the order and the form of JSON stay.
func TestRedactDocument(t *testing.T) {
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,"x<y"],"token":{"t":5,"u":null,"v":"","w":false}}`:    `{"b":1,"a":[true,null,"x<y"],"token":{"t":"[left out]","u":null,"v":"","w":false}}`,
		"{\n  \"Args\": [\n    \"--join-token\",\n    \"abc\",\n    \"x\"\n  ]\n}\n": "{\n  \"Args\": [\n    \"--join-token\",\n    \"[left out]\",\n    \"x\"\n  ]\n}\n",
		`["--token=abc","-p"]`:                                          `["--token=[left out]","-p"]`,
		`{"Env":["A=b","C","D=e=f"],"env":{"A":"b"}}`:                   `{"Env":["A=[left out]","C","D=[left out]"],"env":{"A":"b"}}`,
		`[{"value":"x","name":"DB_PASSWORD"},{"name":"A","value":"x"}]`: `[{"value":"[left out]","name":"DB_PASSWORD"},{"name":"A","value":"x"}]`,
		`{"l":"{\"password\":\"x\",\"a\":1}"}`:                          `{"l":"{\"password\":\"[left out]\",\"a\":1}"}`,
		`{"n":12345678901234567890}`:                                    `{"n":12345678901234567890}`,
		`{"a":1}{"b":2}`:                                                `{"a":1}{"b":2}`,
		`{"a":1`:                                                        `{"a":1`,
		"INFO {}\n{\"token\":\"x\",\"msg\":\"y\"}\nplain":               "INFO {}\n{\"token\":\"[left out]\",\"msg\":\"y\"}\nplain",
		deep: deep,
	} {
		if diff := cmp.Diff(want, string(logpack.Redact([]byte(in)))); diff != "" {
			t.Errorf("%.80q (-want +got):\n%s", in, diff)
		}
	}
}

// TestEveryName holds that no name and no form of a secret is passed over, in any line.
func TestEveryName(t *testing.T) {
	for _, name := range strings.Fields("Password passwd PASSPHRASE client_secret token credentials api-key api_key AccessKey account.key encryptionkey private-key signing_key " +
		"shared-key Authorization registry-auth Cookie invitation db_pass DB_PWD auth pass pwd psk") {
		for _, form := range []string{"%s: hunter2", "%s=hunter2", `"%s": "hunter2"`, "  - %s : hunter2", `{"%s":"hunter2"}`} {
			in := strings.Replace(form, "%s", name, 1)
			if out := string(logpack.Redact([]byte(in))); strings.Contains(out, "hunter2") || out == in {
				t.Errorf("%s: %s", in, out)
			}
		}
	}
	for _, in := range []string{
		"gho_hunter2hunter2hunter2", "ghp_hunter2hunter2hunter2", "ghu_hunter2hunter2hunter2", "github_pat_hunter2hunter2hunter2", "glpat-hunter2hunter2hunter2",
		"hf_hunter2hunter2hunter2", "AKIA0123456789HUNTER", "xoxb-hunter2hunter2", "eyJhunter2hunter2hunter2.hunter2", "a BASIC hunter2hunter2", "x://a:hunter2@b",
	} {
		if out := strings.ToLower(string(logpack.Redact([]byte("so " + in + " is")))); strings.Contains(out, "hunter") || !strings.HasSuffix(out, " is") && !strings.HasSuffix(out, "@b is") {
			t.Errorf("%s: %s", in, out)
		}
	}
}

// TestEndOfAKey holds that of the end of a file in which a key began nothing of the key is left.
func TestEndOfAKey(t *testing.T) {
	const in = "AAAA\nBBBB\n-----END PRIVATE KEY-----\nmore"
	if got := string(logpack.Redact([]byte(in))); got != "\n\n\nmore" {
		t.Errorf("%q", got)
	}
}
