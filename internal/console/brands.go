package console

import (
	"net/http"
	"net/url"

	"atrium"
)

// A brand is a brand as the API shows it.
type brand struct {
	BrandID   string `json:"brandId"`
	Name      string `json:"name"`
	CreatedAt string `json:"createdAt"`
}

func (c *Console) listBrands(r *request) error {
	brands, err := readList[brand](r, "/brands")
	if err != nil {
		return err
	}
	return r.show("brands", "pages", "Brands", brands)
}

func (c *Console) createBrand(r *request) error {
	if _, err := r.call(call{method: http.MethodPost, path: "/brands", body: map[string]any{"name": r.form("name")}}); err != nil {
		return err
	}
	return r.redirect(r.path("brands"), "brandcreated", r.form("name"))
}

// changeBrand renames or deletes a brand, unless its name has changed since the user saw it.
func (c *Console) changeBrand(r *request) error {
	path := "/brands/" + url.PathEscape(r.http.PathValue("brand_id"))
	var current brand
	tag, err := r.get(&current, path, nil)
	if err != nil {
		return err
	}
	if current.Name != r.form("seen:name") {
		return errChanged
	}
	switch r.http.PathValue("action") {
	case "rename":
		name := r.form("name")
		if name == current.Name {
			return r.redirect(r.path("brands"), "unchanged")
		}
		if _, err := r.call(call{method: http.MethodPatch, path: path, ifMatch: tag, body: map[string]any{"name": name}}); err != nil {
			return err
		}
		return r.redirect(r.path("brands"), "brandrenamed", name)
	case "delete":
		if _, err := r.call(call{method: http.MethodDelete, path: path, ifMatch: tag}); err != nil {
			return err
		}
		return r.redirect(r.path("brands"), "branddeleted", current.Name)
	}
	return atrium.NotFound()
}
