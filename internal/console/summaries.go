package console

import (
	"net/http"
	"net/url"
	"strings"

	"atrium"
	"atrium/internal/summary"
)

// A summaryTemplate is a summary template as the API shows it.
type summaryTemplate struct {
	Source   string `json:"source"`
	Type     string `json:"type,omitempty"`
	Template string `json:"template"`
}

type summaryTemplates struct {
	Templates []summaryTemplate `json:"templates"`
}

type summariesPage struct {
	Templates []summaryTemplate
	Tag       string          // of Templates
	Edited    summaryTemplate // in the form
	Previewed bool
	Latest    *entry // the entry of the preview; nil if none was found
	Line      string // about it
	Raw       string // its payload
	More      bool   // older entries were not examined
}

// showSummaries shows all templates, and a form with the one that the parameters name.
func (c *Console) showSummaries(r *request) error {
	p := summariesPage{Edited: summaryTemplate{Source: r.query("source"), Type: r.query("type")}}
	return r.showTemplates(p)
}

// changeSummaries shows a preview of the template in the form, or stores or deletes it.
func (c *Console) changeSummaries(r *request) error {
	form := r.http.PostForm
	p := summariesPage{Edited: summaryTemplate{form.Get("source"), form.Get("type"), form.Get("template")}}
	done := "template"
	var err error
	switch {
	case form.Has("preview"):
		return r.showTemplates(p)
	case form.Has("delete"):
		query := url.Values{"source": {p.Edited.Source}}
		if p.Edited.Type != "" {
			query.Set("type", p.Edited.Type)
		}
		done = "templategone"
		_, err = r.call(call{method: http.MethodDelete, path: "/summary_templates", query: query, ifMatch: form.Get("tag")})
	default:
		_, err = r.call(call{method: http.MethodPut, path: "/summary_templates", ifMatch: form.Get("tag"), body: p.Edited})
	}
	if err == nil {
		return r.redirect(r.path("activity", "summaries"), done, strings.TrimSpace(p.Edited.Source+" "+p.Edited.Type))
	}
	if atrium.CodeOf(err) == atrium.CodePreconditionFailed {
		r.refused = atrium.Errorf(atrium.CodePreconditionFailed, "The templates have changed since you opened this page. Compare them below, then save again.")
	} else if err := r.refuse(err); err != nil {
		return err
	}
	return r.showTemplates(p)
}

// showTemplates shows the page with the stored templates and a preview.
func (r *request) showTemplates(p summariesPage) error {
	var stored summaryTemplates
	var err error
	if p.Tag, err = r.get(&stored, "/summary_templates", nil); err != nil {
		return err
	}
	p.Templates = stored.Templates
	if r.http.Method == http.MethodGet {
		for _, t := range p.Templates {
			if t.Source == p.Edited.Source && t.Type == p.Edited.Type {
				p.Edited.Template = t.Template
			}
		}
	}
	if p.Edited.Source != "" {
		if err := r.preview(&p); err != nil {
			return err
		}
	}
	return r.show("summaries", "activity", "Summaries", p)
}

// preview finds the latest entry that the template in the form is for, and makes the line about it.
func (r *request) preview(p *summariesPage) error {
	query := url.Values{"source": {p.Edited.Source}, "limit": {"1"}, "include": {"payload"}}
	if p.Edited.Type != "" {
		query.Set("type", p.Edited.Type)
	}
	var found list[entry]
	if _, err := r.get(&found, "/account_logs", query); err != nil {
		return err
	}
	p.Previewed, p.More = true, found.HasMore
	if len(found.Items) > 0 {
		p.Latest = &found.Items[0]
	}
	template, fault := summary.Parse(p.Edited.Template)
	if fault != "" && r.refused == nil && p.Edited.Template != "" {
		if err := r.refuse(wrong("template", "%s", fault)); err != nil {
			return err
		}
	}
	if p.Latest == nil {
		return nil
	}
	return r.heavily(func() error {
		if p.Raw, _ = raw(p.Latest.Payload); fault == "" {
			p.Line = template.Render(p.Latest.Payload)
		} else {
			p.Line = summary.Default(p.Latest.Payload)
		}
		return nil
	})
}
