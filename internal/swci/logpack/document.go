package logpack

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxDepth bounds how deep a document's values lie in each other; a deeper one is taken for text.
const maxDepth = 200

// redactJSON is redact of a JSON document, in the same order; ok is false if it is none. Indented documents stay so.
func redactJSON(doc []byte) (out []byte, ok bool) {
	if trimmed := bytes.TrimSpace(doc); len(trimmed) < 2 || trimmed[0] != '{' && trimmed[0] != '[' {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	d := &document{dec: dec}
	if err := d.value(place{}, 0); err != nil {
		return nil, false
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	if !bytes.Contains(bytes.TrimSpace(doc), []byte("\n")) {
		return d.out.Bytes(), true
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, d.out.Bytes(), "", "  "); err != nil {
		return nil, false
	}
	return indented.Bytes(), true
}

// document writes a JSON document again, without its secrets.
type document struct {
	dec *json.Decoder
	out bytes.Buffer
}

// place is what is known of where a value stands.
type place struct {
	secret bool // it stands under a secret's name, at whatever depth
	env    bool // it is, or is in, a list of variables
}

var errDeep = errors.New("the document is too deep")

func (d *document) value(at place, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	t, err := d.dec.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return d.list(at, depth)
		}
		return d.object(at, depth)
	case string:
		return d.write(redactString(t, at))
	case json.Number:
		if at.secret {
			return d.write(leftOut)
		}
	}
	return d.write(t)
}

// write writes a scalar.
func (d *document) write(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	d.out.Write(bytes.TrimSpace(b.Bytes()))
	return nil
}

// list writes what follows a [. Behind an option that takes a secret stands the secret.
func (d *document) list(at place, depth int) error {
	d.out.WriteByte('[')
	behind := false
	for n := 0; d.dec.More(); n++ {
		if n > 0 {
			d.out.WriteByte(',')
		}
		begin, here := d.out.Len(), at
		here.secret = here.secret || behind
		if err := d.value(here, depth+1); err != nil {
			return err
		}
		var word string
		behind = json.Unmarshal(d.out.Bytes()[begin:], &word) == nil && isSecretOption(word)
	}
	d.out.WriteByte(']')
	_, err := d.dec.Token()
	return err
}

// object writes what follows a {. One of its values may be named by another: {"name": "TOKEN", "value": "x"}.
func (d *document) object(at place, depth int) error {
	d.out.WriteByte('{')
	var names []string
	var values [][]byte
	named := false
	for d.dec.More() {
		t, err := d.dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		outer := d.out
		d.out = bytes.Buffer{}
		under := place{secret: at.secret || isSecret(name), env: at.env || isEnvironment(name)}
		err = d.value(under, depth+1)
		value := d.out.Bytes()
		d.out = outer
		if err != nil {
			return err
		}
		var text string
		named = named || (strings.EqualFold(name, "name") || strings.EqualFold(name, "key")) && json.Unmarshal(value, &text) == nil && isSecret(text)
		names, values = append(names, name), append(values, value)
	}
	for i, name := range names {
		if i > 0 {
			d.out.WriteByte(',')
		}
		if err := d.write(redactValues(name)); err != nil {
			return err
		}
		d.out.WriteByte(':')
		if named && strings.EqualFold(name, "value") {
			if err := d.write(leftOut); err != nil {
				return err
			}
			continue
		}
		d.out.Write(values[i])
	}
	d.out.WriteByte('}')
	_, err := d.dec.Token()
	return err
}

// redactString is redact of a string in a document. Of variables only the names are kept.
func redactString(s string, at place) string {
	switch name, _, isVariable := strings.Cut(s, "="); {
	case s == "":
		return s
	case at.secret:
		return leftOut
	case at.env && isVariable && !strings.ContainsAny(name, " \t\n"):
		return name + "=" + leftOut
	}
	return string(redact([]byte(s)))
}
