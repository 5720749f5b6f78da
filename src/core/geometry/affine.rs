//! Affine maps of the plane.

/// Rows of a 2 x 3 matrix: (x, y) becomes (a x + b y + c, d x + e y + f).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine(pub [f64; 6]);

impl Affine {
    /// The identity.
    pub const IDENTITY: Self = Self([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);

    /// Image of a point.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let [a, b, c, d, e, f] = self.0;
        (a * x + b * y + c, d * x + e * y + f)
    }

    /// The map of the same points in units that are `unit` times as large.
    #[must_use]
    pub fn in_units_of(self, unit: f64) -> Self {
        let [a, b, c, d, e, f] = self.0;
        Self([a, b, c / unit, d, e, f / unit])
    }

    /// The map that applies this one first, and then `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let [a, b, c, d, e, f] = self.0;
        let row = |[p, q, r]: [f64; 3]| [p * a + q * d, p * b + q * e, p * c + q * f + r];
        let [p, q, r, s, t, u] = next.0;
        let [first, second] = [row([p, q, r]), row([s, t, u])];
        Self([first[0], first[1], first[2], second[0], second[1], second[2]])
    }

    /// The map back; `None` if it takes the plane to a line.
    pub fn inverse(&self) -> Option<Self> {
        let [a, b, c, d, e, f] = self.0;
        let area = a * e - b * d;
        let inverse = [e, -b, b * f - c * e, -d, a, c * d - a * f].map(|cell| cell / area);
        inverse.iter().all(|cell| cell.is_finite()).then_some(Self(inverse))
    }
}
