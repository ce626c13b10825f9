package report

import (
	"fmt"
	"regexp"
	"strings"
)

// Excerpt is a text between the markers of its name, which a document shows of another:
//
//	<!-- figures: pass -->
//	…
//	<!-- end of figures -->
func Excerpt(name, text string) string {
	return fmt.Sprintf("<!-- figures: %s -->\n\n%s\n\n<!-- end of figures -->", name, strings.Trim(text, "\n"))
}

var excerpt = regexp.MustCompile(`(?s)<!-- figures: ([a-z-]+) -->\n(.*?)\n<!-- end of figures -->`)

// Excerpts are the texts between markers in a document, by name.
func Excerpts(document string) map[string]string {
	found := map[string]string{}
	for _, m := range excerpt.FindAllStringSubmatch(document, -1) {
		found[m[1]] = strings.Trim(m[2], "\n")
	}
	return found
}

// Replace puts texts, by name, between the markers of a document. It is an error if the document has markers for none of them, or there is a text
// without a place.
func Replace(document string, texts map[string]string) (string, error) {
	var missing []string
	placed := map[string]bool{}
	document = excerpt.ReplaceAllStringFunc(document, func(place string) string {
		name := excerpt.FindStringSubmatch(place)[1]
		text, ok := texts[name]
		if !ok {
			missing = append(missing, name)
			return place
		}
		placed[name] = true
		return Excerpt(name, text)
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("nothing was measured for the figures of %s", strings.Join(missing, ", "))
	}
	for name := range texts {
		if !placed[name] {
			return "", fmt.Errorf("there is no place for the figures of %s", name)
		}
	}
	return document, nil
}
