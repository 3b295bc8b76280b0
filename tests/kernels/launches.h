// What the two sides of launches share.
#pragma once

struct Range {
    float low, high;
};
