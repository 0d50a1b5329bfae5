package meta

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):([^=\n].*)?$`)
	makeCommand = regexp.MustCompile("(?m)(?:`|^ {4,}|^\\$ |&& )make ([a-z][a-z-]*)")
	mdLink      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeFence   = regexp.MustCompile("(?s)```.*?```")
)

const maxReadme = 130

// maxPicture bounds a picture of the documents, in bytes: every clone has all that there ever were.
const maxPicture = 200 << 10

// checkScripts wants every script executable, by its first line and by its mode.
func checkScripts(r *repo) (found []violation) {
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if !isScript(name) {
			continue
		}
		f := r.files[name]
		if !f.executable {
			found = append(found, violation{name, "is not executable: chmod +x"})
		}
		if !strings.HasPrefix(f.text, "#!") {
			found = append(found, violation{name, "has no #! line"})
		}
	}
	return found
}

// checkMakefile wants a line of help for every target.
func checkMakefile(r *repo) (found []violation) {
	for _, m := range makeTarget.FindAllStringSubmatch(r.files["Makefile"].text, -1) {
		if _, help, ok := strings.Cut(m[2], "## "); !ok || strings.TrimSpace(help) == "" {
			found = append(found, violation{"Makefile:" + m[1], "has no ## help"})
		}
	}
	return found
}

// checkDocuments finds what documents promise and the tree does not hold: make targets, files behind links, packages on the map;
// and pages that no other one leads to.
func checkDocuments(r *repo) (found []violation) {
	linked := map[string]bool{"docs/README.md": true} // the folder's own page
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(r.files["Makefile"].text, -1) {
		targets[m[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if path.Ext(name) == ".png" && len(r.files[name].text) > maxPicture {
			found = append(found, violation{name, "is larger than 200 KiB: show less of the page"})
		}
		if path.Ext(name) != ".md" {
			continue
		}
		text := r.files[name].text
		for _, m := range makeCommand.FindAllStringSubmatch(text, -1) {
			if !targets[m[1]] {
				found = append(found, violation{name, "names make " + m[1] + ", which the Makefile does not have"})
			}
		}
		for _, m := range mdLink.FindAllStringSubmatch(codeFence.ReplaceAllString(text, ""), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			full := path.Join(path.Dir(name), target)
			linked[full] = linked[full] || full != name
			if _, ok := r.files[full]; !ok && !r.dir(full) && full != "LICENSE" {
				found = append(found, violation{name, "links to " + target + ", which does not exist"})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if strings.HasPrefix(name, "docs/") && path.Ext(name) == ".md" && !linked[name] {
			found = append(found, violation{name, "no other page links to it: add it to docs/README.md"})
		}
	}
	if n := strings.Count(r.files["README.md"].text, "\n"); n > maxReadme {
		found = append(found, violation{"README.md", "is longer than 130 lines: move something to docs/"})
	}
	for _, p := range r.packages {
		if !strings.Contains(r.files["docs/ARCHITECTURE.md"].text, p.name+"/") {
			found = append(found, violation{p.name, "is not on the map: add " + p.name + "/ to docs/ARCHITECTURE.md"})
		}
	}
	return found
}
