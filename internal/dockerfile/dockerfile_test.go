package dockerfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/dockerfile"
)

// pins gives each base an ID.
func pins(f *dockerfile.File) map[string]string {
	ids := map[string]string{}
	for i, b := range f.Bases() {
		ids[b] = fmt.Sprint("sha256:", i)
	}
	return ids
}

func TestAFileIsFixed(t *testing.T) {
	const text = "\ufeff# syntax=docker/dockerfile:1\r\nARG V=1.5\nARG OF=\"pytorch\"\nFrom ${OF}/pytorch:$V-${W:-cuda} as Base\n \nRUN apt-get update   \\\n# said between\n\n   && pip3 install x \\\n  y\n" +
		"FROM tool:2\nCOPY --chown=1:2 --from=base /a /b\ncopy --from=0 /a /b\nCOPY --from=other/image@sha256:1 /a /b\nFROM scratch\nFROM base AS last\nADD --chown=1 a.tar /\nONBUILD COPY . .\nHEALTHCHECK --interval=1s CMD x\nLABEL a=b"
	f, err := dockerfile.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"pytorch/pytorch:1.5-cuda", "tool:2", "other/image@sha256:1"}, f.Bases()); d != "" {
		t.Error(d)
	}
	const want = "ARG V=1.5\nARG OF=\"pytorch\"\nFROM sha256:0 AS base\nLABEL k=v\nRUN apt-get update      && pip3 install x   y\n" +
		"FROM sha256:1\nLABEL k=v\nCOPY --chown=1:2 --from=base /a /b\nCOPY --from=0 /a /b\nCOPY --from=sha256:2 /a /b\nFROM scratch\nLABEL k=v\nFROM base AS last\nLABEL k=v\n" +
		"ADD --chown=1 a.tar /\nONBUILD COPY . .\nHEALTHCHECK --interval=1s CMD x\nLABEL a=b\n"
	if d := cmp.Diff(want, f.Write(pins(f), dockerfile.Marks{Label: "k=v"})); d != "" {
		t.Error(d)
	}
}

// TestAVariableIsFixed: no image and no step changes it for a RUN.
func TestAVariableIsFixed(t *testing.T) {
	f, err := dockerfile.Read("ARG G=all\nFROM a AS b\nENV A=b \\\n G=all\nRUN x\nFROM b\nARG G\nenv $G=all\nRUN y\nONBUILD run z\nONBUILD ENV G=all")
	if err != nil {
		t.Fatal(err)
	}
	const want = "ARG G=all\nFROM sha256:0 AS b\nENV G=void\nENV A=b  G=all\nENV G=void\nRUN x\nFROM b\nENV G=void\nARG G\nENV $G=all\nENV G=void\nRUN y\nONBUILD run z\nONBUILD ENV G=all\n"
	if d := cmp.Diff(want, f.Write(pins(f), dockerfile.Marks{Env: "G=void"})); d != "" {
		t.Error(d)
	}
	triggers := f.Triggers()
	if d := cmp.Diff([]string{"run z", "ENV G=all"}, triggers); d != "" || !dockerfile.Runs(triggers[0]) || dockerfile.Runs(triggers[1]) {
		t.Error(d)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                         "it has no FROM",
		"# only said":                              "it has no FROM",
		"RUN x\nFROM a":                            "line 1: RUN stands before the first FROM",
		"FROM a\nRUM x":                            `line 2: "RUM" is no step of a Dockerfile: did you mean RUN?`,
		"FROM a\nRUN":                              "line 2: RUN says nothing",
		"FROM":                                     "line 1: FROM says nothing",
		"FROM --platform=x a":                      "options of FROM",
		"FROM a AS A!":                             "bad name of a stage",
		"FROM a AS x\nFROM b AS X":                 "bad name of a stage",
		"FROM a as scratch":                        "bad name of a stage",
		"FROM a b c d":                             "want FROM IMAGE",
		"FROM $X":                                  "give its ARG a value",
		"FROM \"a\"":                               "write it out",
		"FROM ${X%y}":                              "write it out",
		"# escape=`\nFROM a":                       "leave out # escape",
		"FROM a\nRUN x \\\\\nFROM evil":            "two backslashes",
		"FROM a\nRUN x \\ \\":                      "RUN ends with a backslash",
		"FROM a\nRUN --mount=type=secret x":        "options of RUN",
		"FROM a\nADD http://169.254.169.254/ /":    "ADD of a URL",
		"FROM a\nADD [\"HTTP://x\",\"/\"]":         "ADD of a URL",
		"FROM a\nADD [\"http:\\/\\/x\",\"/\"]":     "ADD of a URL",
		"FROM a\nADD ht\"\"tp:''//x /":             "ADD of a URL",
		"FROM a\nENV U=http://x\nADD $U /":         "ADD of a URL",
		"FROM a\nADD --checksum=1 x /":             "ADD with",
		"FROM a\nCOPY --from=$X a b":               "name one stage, or one image",
		"FROM a\nCOPY --from=x --from=y a b":       "name one stage, or one image",
		"FROM a\nCOPY --fr\\om=x a b":              "leave it out",
		"FROM a\nCOPY --chown=a\u00a0--from=x a b": "leave it out",
		"FROM a\nCOPY -- --from=x a b":             "leave it out",
		"FROM a\nONBUILD COPY --from=x a b":        "ONBUILD COPY with",
		"FROM a\nONBUILD ADD http://x /":           "ADD of a URL",
		"FROM a\nRUN true # <<\"MAINTAINER z\"":    "RUN has <<",
		"FROM a\nCOPY <<E /x":                      "COPY has <<",
		"FROM a\nONBUILD RUN cat <<E":              "ONBUILD has <<",
		"FROM a\nLABEL io.\"swarmd\".build=x":      "swarmd's own",
		"FROM a\nENV X=io.swarmd\nLABEL ${X}.y=z":  "without $ and backslash",
		"FROM a\nLABEL a=b io.swar\\md.build=x":    "without $ and backslash",
		"FROM a\nONBUILD FROM b":                   "ONBUILD FROM is not allowed",
		"FROM a\nLABEL IO.swarmd.role=sl":          "swarmd's own",
		"ARG 1=2\nFROM a":                          "want ARG NAME",
	} {
		if _, err := dockerfile.Read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestAStagesOwnNameIsAnImage: builders look for it outside the file, so it is to be fixed.
func TestAStagesOwnNameIsAnImage(t *testing.T) {
	f, err := dockerfile.Read("FROM a AS evil\nCOPY --from=evil /a /b\nCOPY --from=0 /a /b")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "evil", "0"}, f.Bases()); d != "" {
		t.Error(d)
	}
}

// FuzzRead holds that what is written is read as the same, and has nothing in it that is not fixed.
func FuzzRead(f *testing.F) {
	f.Add("FROM a AS b\nRUN x \\\n y\nCOPY --from=c d e")
	f.Add("# escape=`\nFROM a\\\\\n\nADD $x /")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := dockerfile.Read(text)
		if err != nil {
			return
		}
		ids := pins(d)
		once := d.Write(ids, dockerfile.Marks{Label: "k=v"})
		again, err := dockerfile.Read(once)
		if err != nil {
			t.Fatalf("%q: %v", once, err)
		}
		same := map[string]string{}
		for _, b := range again.Bases() {
			if !strings.HasPrefix(b, "sha256:") {
				t.Errorf("%q is not fixed in %q", b, once)
			}
			same[b] = b
		}
		if twice := again.Write(same, dockerfile.Marks{}); twice != once {
			t.Errorf("%q became %q", once, twice)
		}
	})
}
