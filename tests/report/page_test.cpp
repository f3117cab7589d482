#include "report/page.h"

#include <regex>

#include "report/html.h"
#include "report/run_folder.h"

namespace tandem {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

class Page : public ReportTest {
 protected:
  static std::string page(const std::vector<std::filesystem::path>& folders) {
    return report_page(read_runs(folders), "made now");
  }
};

TEST(EscapeHtml, LeavesNoMarkupAndNoInvalidText) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_html("größer 火 😀\n\t"), "größer 火 😀\n\t");
  EXPECT_EQ(escape_html(std::string("a\0b\x1b", 4)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
  // Overlong, a surrogate, beyond U+10FFFF, cut short, alone.
  EXPECT_EQ(escape_html("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(escape_html("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(escape_html("\xf4\x90\x80\x80").size(), 12U);
  EXPECT_EQ(escape_html("\xe7\x81"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(escape_html("\x80x"), "\xef\xbf\xbdx");
}

TEST_F(Page, NeedsNothingBesideItself) {
  const std::string html = page({make_run("a", start("h") + train(10, "1.5"))});
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "url(", "fetch("}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("made now"), std::string::npos);
}

TEST_F(Page, AnEvaluationWhoseLossIsNotFiniteIsNotTheBest) {
  std::string lost = evaluation(10, "0.875");
  lost.replace(lost.find("0.75"), 4, "null");
  const std::string html = page({make_run("a", train(10, "1.5") + lost + evaluation(20, "0.5"))});
  EXPECT_NE(html.find("50.00 %</td><td>20</td>"), std::string::npos);
}

TEST_F(Page, ShowsFinalAndBestValues) {
  const std::string html = page({make_run("a", train(10, "1.5") + evaluation(10, "0.75") +
                                                   train(20, "1.25") + evaluation(20, "0.5")),
                                 make_run("b", train(10, "2.5") + evaluation(10, "0.25"))});
  EXPECT_NE(html.find("<td class=\"best\">★ 1.2500</td>"), std::string::npos);
  EXPECT_NE(html.find("<td>2.5000</td>"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"best\">★ 75.00 %</td><td>10</td>"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"best\">★ 50.00 %</td>"), std::string::npos);
  // Of run a: twice 2 s with 0.5 s of waiting and 0.25 s of communication, and 2 s of evaluation.
  for (const char* cell : {"2.500 s <small>41.7 %", "1.000 s <small>16.7 %", "0.500 s <small>8.3 %",
                           "2.000 s <small>33.3 %"}) {
    EXPECT_NE(html.find(cell), std::string::npos) << cell;
  }
}

TEST_F(Page, PathsOfNamesAreText) {
  const std::string name = "<script>alert(1)<\\script>\"' & co";
  const std::string html = page(
      {make_run(name, start("<b>host</b>") + train(10, "1.5"), "\"<i>\" = \"</td><script>\"\n")});
  EXPECT_EQ(count(html, "<script>"), 1U);  // the page's own
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_EQ(html.find("<i>\""), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(1)&lt;\\script&gt;&quot;&#39; &amp; co"),
            std::string::npos);
}

/// The paths of the first chart (loss by step).
std::vector<std::string> loss_paths(const std::string& html) {
  const std::string chart = html.substr(0, html.find("</svg>"));
  std::vector<std::string> paths;
  const std::regex pattern("<path d=\"([^\"]*)\"");
  for (std::sregex_iterator each(chart.begin(), chart.end(), pattern), end; each != end; ++each) {
    paths.push_back((*each)[1]);
  }
  return paths;
}

TEST_F(Page, AGapBreaksTheCurveAndALonePointIsADot) {
  const std::string html = page({make_run(
      "a", train(1, "5") + train(2, "4") + train(3, "null") + train(4, "2") + train(5, "null"))});
  const std::vector<std::string> paths = loss_paths(html);
  ASSERT_EQ(paths.size(), 2U);  // training and evaluation
  EXPECT_EQ(count(paths[0], "M"), 2U) << paths[0];
  EXPECT_EQ(count(paths[0], "L"), 1U) << paths[0];
  EXPECT_EQ(paths[1], "");
  EXPECT_EQ(count(html.substr(0, html.find("</svg>")), "<circle"), 1U);
}

TEST_F(Page, WorksWithoutAPointWithOneAndWithMany) {
  EXPECT_EQ(count(page({make_run("none", start("h"))}), "No values recorded."), 15U);
  EXPECT_EQ(count(loss_paths(page({make_run("one", train(7, "1"))}))[0], "M"), 1U);
  std::string many;
  for (int i = 1; i <= 20000; ++i) many += train(i, std::to_string(i % 7));
  const std::string html = page({make_run("many", many)});
  EXPECT_LT(html.size(), 400'000U);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf\""), std::string::npos);
}

/// The charts with this title, one for each kind of horizontal axis.
std::vector<std::string> charts(const std::string& html, const std::string& title) {
  std::vector<std::string> found;
  const std::string begin = "<figcaption>" + title + " ";
  for (std::size_t at = 0; (at = html.find(begin, at)) != std::string::npos; ++at) {
    found.push_back(html.substr(at, html.find("</figure>", at) - at));
  }
  return found;
}

TEST_F(Page, ChartsOfWhatFewRunsRecordAreThereForThose) {
  const std::filesystem::path plain = make_run("plain", train(10, "3"));
  const std::filesystem::path more =
      make_run("more", train(10, "3", "\"gradient_norm\": 2.5, ") + bad_samples(10, 2, 1) +
                           train(20, "2", "\"gradient_norm\": 1.5, ") + bad_samples(20, 1, 2) +
                           train(30, "1", "\"gradient_norm\": 0.5, "));
  EXPECT_EQ(charts(page({plain}), "Gradient norm").size(), 0U);
  EXPECT_EQ(charts(page({plain}), "Skipped samples").size(), 0U);
  EXPECT_EQ(page({plain}).find("class=\"remark\""), std::string::npos);
  const std::string both = page({plain, more});
  const std::vector<std::string> norms = charts(both, "Gradient norm");
  ASSERT_EQ(norms.size(), 3U);
  EXPECT_EQ(count(norms[0], "<path d=\"\"/>"), 1U) << "the other run has none";
  EXPECT_EQ(count(norms[0], "L"), 2U) << norms[0];
  const std::vector<std::string> skipped = charts(both, "Skipped samples");
  ASSERT_EQ(skipped.size(), 3U);
  // From 0 to 5 % above 3: 2 lies at 256 - 244 * 2 / 3.15, 3 at 256 - 244 * 3 / 3.15.
  EXPECT_NE(skipped[0].find(" 101.1L"), std::string::npos) << skipped[0];
  EXPECT_NE(skipped[0].find(" 23.6\""), std::string::npos) << skipped[0];
  EXPECT_NE(both.find("more</span> skipped samples that could not be read 3 times (2 samples, "
                      "listed in its bad_samples.txt)"),
            std::string::npos);
}

TEST_F(Page, SaysWhichRunsEndedEarlyAndWhy) {
  const std::string html =
      page({make_run("whole", train(10, "3") + end("finished", 10, "")),
            make_run("early", train(1200, "3") + end("early_stop", 1200, "top1 <b> stood still")),
            make_run("signal", train(10, "3") + end("stopped", 10, "SIGTERM"))});
  EXPECT_EQ(count(html, "class=\"remark\""), 2U);
  EXPECT_NE(html.find("early</span> ended early at step 1,200: top1 &lt;b&gt; stood still</p>"),
            std::string::npos);
  EXPECT_NE(html.find("signal</span> was stopped at step 10: SIGTERM</p>"), std::string::npos);
}

TEST_F(Page, MarksWhatDiffersAndFoldsTheRest) {
  const std::string html = page({make_run("a", train(1, "1"), "[train]\nepochs = 3\nseed = 1\n"),
                                 make_run("b", train(1, "1"), "[train]\nepochs = 4\nseed = 1\n"),
                                 make_run("c", train(1, "1"), "")});
  EXPECT_NE(html.find("<tr class=\"differs\"><th scope=\"row\">≠ train.epochs</th>"
                      "<td>3</td><td>4</td><td>–</td></tr>"),
            std::string::npos);
  EXPECT_NE(html.find("<tr><th scope=\"row\">train.seed</th>"), std::string::npos);
  EXPECT_LT(html.find("train.epochs"), html.find("<details>"));
  EXPECT_GT(html.find("train.seed"), html.find("<details>"));
}

}  // namespace
}  // namespace tandem
